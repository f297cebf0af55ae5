"""SET against sparse_learning, ITOP and its authors: the deterministic part, and what random growth
must respect."""

import numpy as np
import torch

from baselines.config import SetConfig
from baselines.drop_grow import drop_by_sign
from baselines.set import Set
from tests.golden.conftest import count_case, golden_files
from tests.support.golden_weights import Replay, load, tensor


def test_sparse_learning() -> None:
    for file in golden_files("set_[0-9]"):
        data = load(file)
        config = SetConfig(
            rule="sparse-learning",
            interval=int(data["steps_between_updates"]),
            alpha=float(data["prune_rate_initial"]),
            rate="cosine-decay",
            stop=1.0,
            min_updates=0,
        )
        method = Set(config)
        replay = Replay(method, data, total_steps=int(data["T_max"]))
        np.testing.assert_allclose(method.baseline, data["baseline_nonzero"], rtol=1e-12)
        for update in range(int(data["n_updates"])):
            step = int(data[f"u{update}_steps_done"])
            replay.enter(update)
            np.testing.assert_allclose(
                method.schedule.fraction(step), data[f"u{update}_prune_rate"], rtol=1e-12
            )
            assert method.adjusted.value == data[f"u{update}_in_adjusted_growth"]
            assert method.adjusted.deviations == data[f"u{update}_in_adjustments"].tolist()
            plan = method.plan(replay.weights, step)
            assert sum(plan.removed) == data[f"u{update}_total_removed"]
            total = 0
            for weight, share, own, kept, removed, count in zip(
                replay.weights,
                plan.shares,
                plan.rates,
                plan.kept,
                plan.removed,
                plan.counts,
                strict=True,
            ):
                assert share == replay.array(update, weight, "share")
                np.testing.assert_allclose(
                    own, replay.array(update, weight, "layer_prune_rate"), rtol=1e-12
                )
                replay.assert_equal(update, weight, "keep_mask", kept)
                assert removed == replay.array(update, weight, "n_removed")
                assert count == replay.array(update, weight, "n_regrow")
                total += int(replay.array(update, weight, "out_count_random"))
                count_case("set")
            # The official draw's total feeds the next update's adjusted growth.
            method.adjusted.note(method.baseline - total)
            np.testing.assert_allclose(
                method.adjusted.value, data[f"u{update}_out_adjusted_growth"], rtol=1e-12
            )


def test_itop() -> None:
    for file in golden_files("itop_set"):
        data = load(file)
        config = SetConfig(
            rule="itop",
            interval=int(data["update_frequency"]),
            alpha=float(data["death_rate_initial"]),
            rate="cosine-decay",
            stop=1.0,
            min_updates=0,
        )
        method = Set(config)
        replay = Replay(method, data, total_steps=int(data["T_max"]))
        for update in range(int(data["n_updates"])):
            step = int(data[f"u{update}_step"])
            replay.enter(update)
            replay.backward(update, step, "in_grad")
            np.testing.assert_allclose(
                method.schedule.fraction(step), data[f"u{update}_death_rate"], rtol=1e-12
            )
            kept = []
            for weight in replay.weights:
                drop = method.drop(weight, step)
                replay.assert_equal(update, weight, "keep_mask", drop.kept)
                assert int(drop.dropped) == replay.array(update, weight, "n_removed")
                kept.append(drop.kept)
                # Gradients stay dense.
                assert weight.parameter.grad is not None
                replay.assert_equal(update, weight, "in_grad", weight.parameter.grad)
            method.update_topology(step)
            for weight, survivors in zip(replay.weights, kept, strict=True):
                assert bool(weight.mask[survivors].all())
                count_case("itop_set")


def test_authors() -> None:
    for file in golden_files("set_original"):
        data = load(file)
        for case in range(int(data["n_cases"])):
            weight, mask = tensor(data[f"c{case}_in_weight"]), tensor(data[f"c{case}_in_mask"])
            drop = drop_by_sign(weight, mask, int(mask.sum()), float(data["zeta"]))
            np.testing.assert_array_equal(drop.kept.numpy(), data[f"c{case}_keep_mask"])
            assert int(drop.dropped) == data[f"c{case}_n_regrow"]
            signs = [int((torch.sign(weight) == sign).sum()) for sign in (1, -1)]
            assert signs == [data[f"c{case}_n_positive"], data[f"c{case}_n_negative"]]
            count_case("set_original")
