"""Runs of one study at equal cost: how accurate each was by then, and what a target cost.

Accuracy at a cost is the best validation top-1 among the evaluations at or before it: that of the
checkpoint which would have been selected. Nothing is interpolated between evaluations.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.errors import UsageError
from bench.modes import TIME
from bench.wording import count
from reports.contenders import COMPARABLE, Contender, Setting, group, method_order
from reports.load import Records, Run
from reports.matched_costs import Cost, Evaluations, Ledger, UnknownCostError
from reports.statistics import Floats

ROUNDING = 1e-9
"""Costs (relative) and accuracies (in points) that differ by less are equal: sums and means of the
same numbers may differ in their last digits."""


@dataclass(frozen=True, eq=False)
class Course:
    """A run's evaluations on the validation split in order, all arrays of shape (evaluations,)."""

    run: Run
    cost: Floats
    """Until each of them, in base units."""
    done: Floats
    """Fraction of the run's own schedule."""
    best: Floats
    """Highest top-1 until then, percent."""

    @property
    def end(self) -> float:
        return float(self.cost[-1])

    def best_at(self, cost: float) -> float | None:
        """None: it was not evaluated by then."""
        return self._last(self.best, cost)

    def done_at(self, cost: float) -> float | None:
        """At the last evaluation by then."""
        return self._last(self.done, cost)

    def cost_of(self, top1: float) -> float | None:
        """That of the first evaluation which reached it; None: not reached."""
        reached = np.flatnonzero(self.best >= top1 - ROUNDING)
        return float(self.cost[reached[0]]) if len(reached) else None

    def _last(self, values: Floats, cost: float) -> float | None:
        n = int(np.searchsorted(self.cost, cost * (1 + ROUNDING), side="right"))
        return float(values[n - 1]) if n else None


@dataclass(frozen=True, eq=False)
class Entrant:
    """A contender with the courses of its runs, of one schedule."""

    contender: Contender
    courses: tuple[Course, ...]
    apart: str = ""
    """Its schedule, where others of its name have another one."""

    @property
    def name(self) -> str:
        return f"{self.contender.name}{self.apart}"

    @property
    def label(self) -> str:
        return f"{self.contender.label}{self.apart}"

    @property
    def label_with_density(self) -> str:
        return f"{self.contender.label_with_density}{self.apart}"

    @property
    def total_steps(self) -> int:
        return self.contender.setting["total_steps"]

    @property
    def seeds(self) -> int:
        return len(self.contender.seeds)

    def top1_at(self, cost: float) -> dict[int, float]:
        """By seed, percent; without the seeds that had not been evaluated by then."""
        return self.by_seed(lambda course: course.best_at(cost))

    def by_seed(self, value: Callable[[Course], float | None]) -> dict[int, float]:
        """The mean over the runs of each seed; without the seeds of which a run has no value."""
        values: dict[int, list[float | None]] = defaultdict(list)
        for course in self.courses:
            values[course.run["seed"]].append(value(course))
        means = {seed: _mean(values[seed]) for seed in sorted(values)}
        return {seed: mean for seed, mean in means.items() if mean is not None}

    def final_by_seed(self) -> dict[int, float]:
        """The best top-1 of all, percent."""
        return self.by_seed(lambda course: float(course.best[-1]))


@dataclass(frozen=True, eq=False)
class Peers:
    """Entrants that may be compared: their settings differ in the number of steps at most."""

    entrants: tuple[Entrant, ...]

    @property
    def setting(self) -> Setting:
        """Of the first of them; others may have another `total_steps`."""
        return self.entrants[0].contender.setting

    @property
    def runs(self) -> list[Run]:
        return [course.run for course in self._courses]

    @property
    def matched_cost(self) -> float:
        """The largest that every run reached."""
        return min(course.end for course in self._courses)

    @property
    def limiting(self) -> list[Entrant]:
        """Those with a run that ended there."""
        most = self.matched_cost * (1 + ROUNDING)
        return [e for e in self.entrants if any(course.end <= most for course in e.courses)]

    @property
    def farthest(self) -> float:
        """The largest cost that any run reached."""
        return max(course.end for course in self._courses)

    @property
    def common_top1(self) -> float:
        """What every entrant reaches on average: the lowest mean over seeds of the best top-1."""
        return min(float(np.mean(list(e.final_by_seed().values()))) for e in self.entrants)

    @property
    def _courses(self) -> list[Course]:
        return [course for entrant in self.entrants for course in entrant.courses]


@dataclass(frozen=True)
class Matched:
    """A study at equal cost."""

    cost: Cost
    records: Records
    settings: Sequence[Peers]
    without: Sequence[tuple[Run, str]]
    """Shown runs that are not in it, and why."""


def match_study(records: Records, cost: Cost) -> Matched:
    """Raises UsageError for a study of mode time, and where no run learned something at a known
    cost."""
    study = records.study
    if records.mode == TIME:
        raise UsageError(
            f"study {study!r} is of mode time, which trains nothing to its end: "
            "--match needs a study of mode train"
        )
    courses, without = _courses(records, cost)
    if not courses:
        reasons = Counter(reason for _, reason in without)
        told = "; ".join(f"{count(n, 'run')} {reason}" for reason, n in reasons.items())
        told = told or "all of them failed or were skipped"
        raise UsageError(f"no run of study {study!r} can be matched by {cost.name}: {told}")
    peers: dict[tuple[Any, ...], list[Entrant]] = defaultdict(list)
    for contender in group(records.shown):
        runs = tuple(run for run in contender.runs if run["run_id"] in courses)
        if runs:
            its = tuple(courses[run["run_id"]] for run in runs)
            peers[_but_steps(contender.setting)].append(Entrant(replace(contender, runs=runs), its))
    return Matched(cost, records, [_peers(same) for same in peers.values()], without)


def _courses(records: Records, cost: Cost) -> tuple[dict[str, Course], list[tuple[Run, str]]]:
    """By run id; and the runs without one, with reasons."""
    ledger = Ledger(records)
    evaluations: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in records.evals:
        if row["split"] == "validation" and row["top1_percent"] is not None:
            evaluations[row["run_id"]].append(row)
    found, without = {}, []
    for run in records.shown:
        try:
            found[run["run_id"]] = _course(run, evaluations[run["run_id"]], cost, ledger)
        except UnknownCostError as error:
            without.append((run, str(error)))
    return found, without


def _course(run: Run, evaluations: Evaluations, cost: Cost, ledger: Ledger) -> Course:
    if run["synthetic_data"]:
        raise UnknownCostError("on synthetic data, from which nothing can be learned")
    if not evaluations:
        raise UnknownCostError("never evaluated on the validation split")
    steps, top1 = (
        np.array([row[column] for row in evaluations], float) for column in ("step", "top1_percent")
    )
    spent = cost.spent(ledger, run, evaluations)
    return Course(run, spent, steps / run["total_steps"], np.maximum.accumulate(top1))


def _but_steps(setting: Setting) -> tuple[Any, ...]:
    """Schedules of any length stand together: that is what equal cost is for."""
    pairs = zip(COMPARABLE, setting.values, strict=True)
    return tuple(value for column, value in pairs if column != "total_steps")


def _peers(entrants: Sequence[Entrant]) -> Peers:
    """In the order of methods; namesakes of several schedules are told apart."""
    lengths: dict[str, set[int]] = defaultdict(set)
    for entrant in entrants:
        lengths[entrant.contender.name].add(entrant.total_steps)
    named = [
        replace(e, apart=f", {e.total_steps:,} steps" if len(lengths[e.contender.name]) > 1 else "")
        for e in entrants
    ]
    return Peers(tuple(sorted(named, key=_order)))


def _order(entrant: Entrant) -> tuple[Any, ...]:
    c = entrant.contender
    return method_order(c.method), c.density, c.variant, not c.valid, entrant.total_steps


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
