"""SNFS (sparse momentum) against sparse_learning."""

import numpy as np
import torch

from baselines.config import SnfsConfig
from baselines.snfs import Snfs
from tests.golden.conftest import count_case, golden_files
from tests.support.golden_weights import Arrays, Replay, load


def snfs(data: Arrays) -> Snfs:
    return Snfs(
        SnfsConfig(
            interval=int(data["steps_between_updates"]),
            alpha=float(data["prune_rate_initial"]),
            redistribution=str(data["redistribution"]),
            min_updates=0,
        )
    )


def test_update() -> None:
    for file in golden_files("snfs"):
        data = load(file)
        method = snfs(data)
        replay = Replay(method, data, total_steps=int(data["T_max"]))
        np.testing.assert_allclose(method.baseline, data["baseline_nonzero"], rtol=1e-12)
        for update in range(int(data["n_updates"])):
            step = int(data[f"u{update}_steps_done"])
            replay.enter(update)
            for weight in replay.weights:
                weight.parameter.grad = torch.zeros_like(weight.parameter)
            assert method.schedule.is_update(step)
            rate = method.schedule.fraction(step)
            np.testing.assert_allclose(rate, data[f"u{update}_prune_rate"], rtol=1e-12)
            assert method.adjusted.value == data[f"u{update}_in_adjusted_growth"]
            assert method.adjusted.deviations == data[f"u{update}_in_adjustments"].tolist()
            plan = method.plan(replay.weights, step)
            assert sum(plan.removed) == data[f"u{update}_total_removed"]
            for weight, share, own, kept, removed, count in zip(
                replay.weights,
                plan.shares,
                plan.rates,
                plan.kept,
                plan.removed,
                plan.counts,
                strict=True,
            ):
                for name, value in (("share", share), ("layer_prune_rate", own)):
                    np.testing.assert_allclose(
                        value, replay.array(update, weight, name), rtol=2e-6, err_msg=name
                    )
                replay.assert_equal(update, weight, "keep_mask", kept)
                assert removed == replay.array(update, weight, "n_removed")
                assert count == replay.array(update, weight, "n_regrow")
            events = method.update_topology(step).events
            assert [event.dropped for event in events] == plan.removed
            assert method.adjusted.value == data[f"u{update}_out_adjusted_growth"]
            for weight in replay.weights:
                replay.assert_equal(update, weight, "out_mask", weight.mask)
                replay.assert_equal(update, weight, "out_weight", weight.parameter)
                assert weight.active == int(weight.mask.sum())
                # An update leaves the optimizer's state alone.
                assert replay.assert_state(update, weight, "in") >= 1
                count_case("snfs")
