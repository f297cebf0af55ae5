"""Studies whose evaluations are given by hand: what costs and accuracies at them must be."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.schema import WARM_UP
from bench.store import StudyStore
from reports.contenders import Contender, setting_of
from reports.matched import Course, Entrant
from tests.unit.compare_fixture import run_of
from tests.unit.reports_fixture import Row, Tables, run_row

EVERY = 10
"""Steps between evaluations."""
STEP_MACS = 1_000_000
"""Of dense; others in proportion to their density."""


def learned(
    method: str,
    density: float,
    seed: int,
    top1: Sequence[float],
    step_ms: float | None = 2.0,
    **changes: Any,
) -> Tables:
    """A run that was evaluated every ten steps. Its first two steps, of the warm-up, take ten
    times as long; `changes` replace columns of its `runs` row."""
    own = {"total_steps": EVERY * len(top1), "peak_allocated_bytes": 2**30}
    run = run_row(method, density, seed, **own | changes)
    before = run.get("training_macs_before") or 0.0
    evals: list[Row] = [
        {
            "step": EVERY * k,
            "split": "validation",
            "top1_percent": value,
            "cumulative_training_macs": before + STEP_MACS * density * EVERY * k,
        }
        for k, value in enumerate(top1, 1)
    ]
    last: Row = {"split": "test", "step": EVERY, "top1_percent": 99.0}
    steps: list[Row] = [
        {
            "step": step,
            "flags": [WARM_UP] if step <= 2 else [],
            "step_ms": step_ms and step_ms * (10 if step <= 2 else 1),
        }
        for step in range(1, run["total_steps"] + 1)
    ]
    return {"runs": [run], "evals": [*evals, last], "steps": steps}


def written(root: Path, runs: Sequence[Tables], study: str = "demo") -> StudyStore:
    store = StudyStore(root, study)
    for tables in runs:
        store.write_run(tables["runs"][0]["run_id"], tables)
    return store


def small_study() -> list[Tables]:
    """Dense reaches 80 MFLOPs; static and barter end at 40, which is where all are matched.

    Minus barter there: static -3 and -4 points.
    """
    return [
        learned("dense", 1.0, 0, [50.0, 70.0, 65.0, 90.0]),
        learned("dense", 1.0, 1, [52.0, 71.0, 72.0, 91.0]),
        learned("static", 0.5, 0, [40.0, 60.0, 82.0, 80.0], 1.0),
        learned("static", 0.5, 1, [40.0, 60.0, 70.0, 83.0], 1.0),
        learned("barter", 0.5, 0, [40.0, 60.0, 80.0, 85.0], 1.25),
        learned("barter", 0.5, 1, [42.0, 60.0, 80.0, 87.0], 1.25),
    ]


def entrant(
    method: str,
    top1: Mapping[int, Sequence[float]],
    density: float = 0.3,
    steps: int = 40,
    variant: str = "",
    valid: bool = True,
    from_cost: float = 1.0,
) -> Entrant:
    """In memory: evaluations of every seed, the first at `from_cost`, the next ones 1 apart."""
    courses = []
    for seed, values in top1.items():
        run = run_of(run_row(method, density, seed, total_steps=steps))
        n = len(values)
        cost = from_cost + np.arange(n, dtype=np.float64)
        done = np.arange(1, n + 1, dtype=np.float64) / n
        courses.append(Course(run, cost, done, np.maximum.accumulate(np.array(values, float))))
    runs = tuple(course.run for course in courses)
    contender = Contender(setting_of(runs[0]), method, density, variant, valid, runs)
    return Entrant(contender, tuple(courses))
