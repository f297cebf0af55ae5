"""What a run had cost at each of its evaluations, in the currencies that can be matched.

Costs are those of training steps as they were taken, warm-up steps included. A run that continues
another one has cost what that one cost, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from bench.errors import UsageError
from reports.formats import FLOPS, Units, fitting, integer, number
from reports.load import BY_RUN_AND_STEP, Records, Run, by_run
from reports.statistics import Floats

GIB = 2**30
Evaluations = Sequence[Mapping[str, Any]]
"""Rows of `evals` of one run, by step."""


class UnknownCostError(Exception):
    """Why it is not known what a run cost, in words that may follow the run's name."""


class Ledger:
    """What costs are made of: a study's shown runs, and the times of their steps."""

    def __init__(self, records: Records) -> None:
        self.runs = {run["run_id"]: run for run in records.shown}
        self._records = records

    def seconds(self, run: Run) -> Floats:
        """After each step since the first one, shape (steps,). Raises UnknownCostError."""
        step_ms = self._step_ms.get(run["run_id"])
        if step_ms is None or not np.isfinite(step_ms).all():
            raise UnknownCostError("with steps without a time")
        return np.cumsum(step_ms) / 1e3

    @cached_property
    def _step_ms(self) -> dict[str, Floats]:
        """Of every run the times of all steps, shape (steps,); NaN where a step has none."""
        table = self._records.store.arrow("steps", ("step", "step_ms"), list(self.runs))
        found = {}
        for run_id, rows in by_run(table.sort_by(BY_RUN_AND_STEP)).items():
            steps, times = (
                rows[column].combine_chunks().to_numpy(zero_copy_only=False)
                for column in ("step", "step_ms")
            )
            found[run_id] = np.full(int(steps.max()), np.nan)
            found[run_id][steps - 1] = times
        return found


Spent = Callable[[Ledger, Run, Evaluations], Floats]
"""Base units until each evaluation, shape (evaluations,). Raises UnknownCostError."""
Own = Callable[[Ledger, Run], Floats]
"""Base units of a run's own steps, after each of them, shape (steps,). Raises UnknownCostError."""


def _flops(_: Ledger, run: Run, evaluations: Evaluations) -> Floats:
    """The records have those of a run that it continues in the sum."""
    macs = [row["cumulative_training_macs"] for row in evaluations]
    if None in macs:
        raise UnknownCostError("with an evaluation whose MACs were not counted")
    return 2 * np.array(macs, float)


def _steps(_: Ledger, run: Run, evaluations: Evaluations) -> Floats:
    return np.array([row["step"] for row in evaluations], float) + (run["steps_before"] or 0)


def _seconds(ledger: Ledger, run: Run) -> Floats:
    return ledger.seconds(run)


def _gib_seconds(ledger: Ledger, run: Run) -> Floats:
    if run["peak_allocated_bytes"] is None:
        raise UnknownCostError("without a recorded peak of memory")
    return run["peak_allocated_bytes"] / GIB * ledger.seconds(run)


def _joules(_: Ledger, run: Run) -> Floats:
    if run["energy_j_per_step"] is None:
        raise UnknownCostError("without counted energy")
    return run["energy_j_per_step"] * np.arange(1.0, run["total_steps"] + 1)


def _with_continued(own: Own) -> Spent:
    """What a run spent, from what runs spend on their own steps."""

    def spent(ledger: Ledger, run: Run, evaluations: Evaluations) -> Floats:
        after = np.concatenate([[0.0], own(ledger, run)])
        steps = np.array([row["step"] for row in evaluations])
        if steps.max() >= len(after):
            raise UnknownCostError("with an evaluation after its last recorded step")
        return before(ledger, run) + after[steps]

    def before(ledger: Ledger, run: Run) -> float:
        if run["steps_before"] is None:
            return 0.0
        continued = ledger.runs.get(run["start_run_id"])
        if continued is None:
            raise UnknownCostError("continuing a run whose cost is not in this study")
        return before(ledger, continued) + float(own(ledger, continued)[-1])

    return spent


def _four_digits(value: float) -> str:
    return number(value, 4)


@dataclass(frozen=True)
class Cost:
    """A currency; costs are numbers of its base unit."""

    name: str
    quantity: str
    base: str  # of names in CSV files
    units: Units
    meaning: str
    spent: Spent
    show: Callable[[float], str] = _four_digits

    def unit(self, largest: float) -> tuple[float, str]:
        """The unit that suits costs up to the largest: how many base units it is, its name."""
        return fitting(largest, self.units)

    def text(self, cost: float, unit: float) -> str:
        """A cost as a number of such units."""
        return self.show(cost / unit)

    def axis(self, unit_name: str) -> str:
        label = f"cumulative {self.quantity}"
        return label if self.quantity.endswith(unit_name) else f"{label}, {unit_name}"


_STEP_TIME = (
    "the sum of step times, warm-up steps included since they were spent; data loading, evaluation "
    "and the start of the process are not in it"
)
_COSTS = (
    Cost(
        *("flops", "training compute", "flops"),
        FLOPS,
        "FLOPs = 2 MACs, executed forward and backward",
        _flops,
    ),
    Cost(
        *("time", "step time", "s"),
        ((3600, "h"), (60, "min"), (1, "s")),
        _STEP_TIME,
        _with_continued(_seconds),
    ),
    Cost(
        *("steps", "number of steps", "steps"),
        ((1, "steps"),),
        "optimizer steps",
        _steps,
        integer,
    ),
    Cost(
        *("memory", "rented memory", "gib_s"),
        ((3600, "GiB h"), (1, "GiB s"), (1 / 1024, "MiB s")),
        "peak allocated memory of the run times step time, as memory is rented; step time is "
        f"{_STEP_TIME}",
        _with_continued(_gib_seconds),
    ),
    Cost(
        *("energy", "energy", "j"),
        ((1e6, "MJ"), (1e3, "kJ"), (1, "J")),
        "joules of the whole GPU per timed step times optimizer steps",
        _with_continued(_joules),
    ),
)
COSTS = {cost.name: cost for cost in _COSTS}


def find_cost(name: str) -> Cost:
    """The currency of that name. Raises UsageError, with all names and the nearest one."""
    if name in COSTS:
        return COSTS[name]
    near = get_close_matches(name.lower(), COSTS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"--match is {name!r}: one of {', '.join(COSTS)} it must be{hint}")
