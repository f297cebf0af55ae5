"""Update steps, drop fractions and dense-gradient windows against the official schedulers."""

import numpy as np

from baselines.schedules import UpdateSchedule, cosine_decay
from tests.golden.conftest import count_case, golden_files
from tests.support.golden_weights import load


def test_rigl_schedule() -> None:
    for file in golden_files("schedule"):
        data = load(file)
        for i in range(int(data["n_rigl"])):
            delta, end, total, window = (
                int(data[f"r{i}_{name}"]) for name in ("delta", "T_end", "T", "grad_accumulation_n")
            )
            schedule = UpdateSchedule(delta, end, float(data[f"r{i}_alpha"]), total)
            steps = range(1, total + 1)
            assert list(schedule.update_steps()) == data[f"r{i}_update_steps"].tolist()
            assert [t for t in steps if schedule.is_update(t)] == list(schedule.update_steps())
            np.testing.assert_allclose(
                [schedule.fraction(t) for t in schedule.update_steps()],
                data[f"r{i}_drop_fraction"],
                rtol=1e-13,
            )
            needed = [schedule.needs_dense_gradient(t, window) for t in steps]
            assert needed == data[f"r{i}_dense_grad_needed"].tolist()
            count_case("schedule")


def test_cosine_decay() -> None:
    for file in golden_files("schedule"):
        data = load(file)
        for i in range(int(data["n_cosine"])):
            total = int(data[f"c{i}_T_max"])
            rates = [cosine_decay(float(data[f"c{i}_rate"]), k, total) for k in range(total + 1)]
            # The official code chains multiplications from step to step; this is closed form.
            np.testing.assert_allclose(rates, data[f"c{i}_rate_after_k_steps"], rtol=1e-10)
            count_case("schedule")
