"""RigL against condensed-sparsity, nollied's rigl-torch, ITOP and unstructured SViTE."""

import numpy as np
import pytest

from baselines.config import RigLConfig
from baselines.rigl import RigL
from tests.golden.conftest import count_case, golden_files
from tests.support.golden_weights import Replay, load

ORDERS = {
    "optimizer_step_then_update": "after_optimizer_step",
    "update_replaces_step": "replaces_optimizer_step",
}


@pytest.mark.parametrize(
    ("kind", "rule"), [("rigl_[0-9]", "condensed-sparsity"), ("rigl_nollied", "nollied")]
)
def test_update(kind: str, rule: str) -> None:
    for file in golden_files(kind):
        data = load(file)
        n = int(data["grad_accumulation_n"])
        end = int(data["T_end"])
        config = RigLConfig(
            rule=rule,
            interval=int(data["delta"]),
            alpha=float(data["alpha"]),
            stop=1.0,
            min_updates=0,
            dense_gradient_steps=n,
            update_order=ORDERS[str(data["order"])],
        )
        replay = Replay(RigL(config), data, total_steps=end)
        for update in range(int(data["n_updates"])):
            step = int(data[f"u{update}_step"])
            replay.enter(update)
            for j in range(n):
                gradient = f"in_grad_{j}" if n > 1 else "in_dense_grad"
                replay.backward(update, step - n + 1 + j, gradient)
            assert_before(replay, update, step)
            counts = [weight.active for weight in replay.weights]
            events = replay.method.update_topology(step).events
            for weight, event, count in zip(replay.weights, events, counts, strict=True):
                replay.assert_equal(update, weight, "out_mask", weight.mask)
                replay.assert_equal(update, weight, "out_weight", weight.parameter)
                assert weight.parameter.grad is not None
                replay.assert_equal(update, weight, "out_param_grad", weight.parameter.grad)
                assert replay.assert_state(update, weight, "out") >= 1
                assert event.dropped == event.grown == replay.array(update, weight, "n_prune")
                assert int(weight.mask.sum()) == weight.active == count
                count_case(file.stem.rsplit("_", 1)[0])


def assert_before(replay: Replay, update: int, step: int) -> None:
    """Gradients as the method left them after backward, and the schedule."""
    method, data = replay.method, replay.data
    assert isinstance(method, RigL)
    for weight in replay.weights:
        assert weight.parameter.grad is not None
        replay.assert_equal(update, weight, "in_param_grad", weight.parameter.grad)
        replay.assert_equal(update, weight, "in_dense_grad", method.dense_gradient(weight))
    assert method.schedule.is_update(step)
    replaces = str(data["order"]) == "update_replaces_step"
    assert method.replaces_optimizer_step(step) == replaces
    np.testing.assert_allclose(
        method.schedule.fraction(step), data[f"u{update}_drop_fraction"], rtol=1e-13
    )


@pytest.mark.parametrize(
    ("kind", "rule", "total"),
    [("itop_rigl", "itop", "T_max"), ("svite_unstructured", "svite", "T")],
)
def test_strict_threshold_rules(kind: str, rule: str, total: str) -> None:
    for file in golden_files(kind):
        data = load(file)
        config = RigLConfig(
            rule=rule,
            interval=int(data["update_frequency"]),
            alpha=float(data["death_rate_initial"]),
            rate="cosine-decay",
            stop=1.0,
            min_updates=0,
        )
        replay = Replay(RigL(config), data, total_steps=int(data[total]))
        for update in range(int(data["n_updates"])):
            step = int(data[f"u{update}_step"])
            replay.enter(update)
            replay.backward(update, step, "in_grad")
            method = replay.method
            assert isinstance(method, RigL)
            np.testing.assert_allclose(
                method.schedule.fraction(step), data[f"u{update}_death_rate"], rtol=1e-12
            )
            for weight in replay.weights:
                drop = method.drop(weight, step)
                if f"u{update}_{weight.name}_keep_mask" in data:
                    replay.assert_equal(update, weight, "keep_mask", drop.kept)
                assert int(drop.dropped) == replay.array(update, weight, "n_removed")
            method.update_topology(step)
            for weight in replay.weights:
                replay.assert_equal(update, weight, "out_mask", weight.mask)
                replay.assert_equal(update, weight, "out_weight", weight.parameter)
                replay.assert_state(update, weight, "out")
                count_case(kind)
