"""Step times of two studies against each other: ratios after / before, judged.

Nothing of two studies was measured in the same round, so no ratio is paired. Units of chance are
launches (of mode `train`: runs, each a fresh process), and the two sides are independent: Welch's
interval on logarithms. The machine may have been faster in one of the two sittings; so where both
studies hold the reference under the same conditions, what is judged is the time relative to the
reference of the same study, which is paired by round (of mode `train`: by seed) within it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bench.errors import UsageError
from bench.modes import TIME
from bench.store import StudyStore
from reports.compare_match import Match, Matching, match
from reports.contenders import Setting, setting_of
from reports.load import Records, Run, load
from reports.load_time import load_times
from reports.paired import Cells, NoiseFloor, by_launch, log_ratios, mean, mean_ratio, noise_floor
from reports.statistics import Estimate, ratio
from reports.verdicts import Judged, judge_each

REFERENCE = "dense"
"""Method that other ones' times are relative to."""
MOST_NAMED = 4
"""Configurations in a refusal."""


@dataclass(frozen=True)
class Study:
    """One side: its records and the mean steps (ms) of every run, by launch and round."""

    records: Records
    steps_ms: Mapping[str, Cells]
    again_ms: Mapping[str, Cells]
    """Of the second entry (A/A), where a run had one."""

    def cells(self, runs: Sequence[Run]) -> Cells:
        return {
            key: ms
            for run in runs
            for key, ms in self.steps_ms.get(run["run_id"], {}).items()
            if ms > 0  # its logarithm is needed
        }

    def floor(self, setting: Setting) -> NoiseFloor | None:
        """From all second entries in a setting."""
        runs = [run for run in self.records.shown if setting_of(run) == setting]
        logs = [
            values
            for run in runs
            for values in log_ratios(self.cells([run]), self.again_ms.get(run["run_id"], {}))
        ]
        return noise_floor(logs)


@dataclass(frozen=True)
class TimeChange:
    """One matched configuration. Estimates are None where a side has no time."""

    match: Match
    before_ms: Estimate | None
    after_ms: Estimate | None
    refused: bool
    """Whether conditions forbid the ratios."""
    is_reference: bool = False
    measured: Estimate | None = None
    """after / before, as it was measured."""
    to_reference: Estimate | None = None
    """The same of times relative to the reference of the same study."""
    floor: NoiseFloor | None = None
    judged: Judged | None = None

    @property
    def basis(self) -> Estimate | None:
        """The ratio that is judged; None for the reference itself, which the others rest on."""
        if self.is_reference:
            return None
        return self.to_reference if self.to_reference is not None else self.measured

    @property
    def forced(self) -> bool:
        return bool(self.match.differences) and not self.refused


@dataclass(frozen=True)
class Comparison:
    """Two studies; `before` and `after` are of one mode."""

    before: Study
    after: Study
    matching: Matching
    force: bool

    @property
    def is_timed(self) -> bool:
        """Whether launches are the units, rather than runs."""
        return self.before.records.mode == TIME

    @cached_property
    def times(self) -> list[TimeChange]:
        """Of every match, judged as one family."""
        changes = [self._change(m) for m in self.matching.matches]
        verdicts = iter(judge_each([(c.basis, c.floor) for c in changes if c.basis]))
        return [replace(c, judged=next(verdicts)) if c.basis else c for c in changes]

    def _change(self, m: Match) -> TimeChange:
        mine, theirs = self.before.cells(m.before), self.after.cells(m.after)
        refused = bool(m.differences) and not self.force
        change = TimeChange(m, mean(by_launch(mine)), mean(by_launch(theirs)), refused)
        if refused or change.before_ms is None or change.after_ms is None:
            return change
        change = replace(change, measured=ratio(change.after_ms, change.before_ms))
        reference = self._reference(m)
        if reference is None:
            return replace(change, floor=self._floor(m, None))
        if reference is m:
            return replace(change, is_reference=True)
        relative = (
            mean_ratio(log_ratios(mine, self.before.cells(reference.before))),
            mean_ratio(log_ratios(theirs, self.after.cells(reference.after))),
        )
        if relative[0] is None or relative[1] is None:
            return replace(change, floor=self._floor(m, None))
        to_reference = ratio(relative[1], relative[0])
        return replace(change, to_reference=to_reference, floor=self._floor(m, reference))

    def _reference(self, m: Match) -> Match | None:
        """What both studies measured beside a match; None if it is missing or not unique, or
        has nothing beside it."""
        beside = [other for other in self.matching.matches if other.settings == m.settings]
        found = [
            other
            for other in beside
            if other.configuration.method == REFERENCE
            and (self.force or not other.differences)
            and self.before.cells(other.before)
            and self.after.cells(other.after)
        ]
        return found[0] if len(found) == 1 < len(beside) else None

    def _floor(self, m: Match, reference: Match | None) -> NoiseFloor | None:
        """The larger one of the two studies' A/A; of mode `train`, what the reference shows."""
        if self.is_timed:
            sides = zip((self.before, self.after), m.settings, strict=True)
            floors = [study.floor(setting) for study, setting in sides]
            known = [floor for floor in floors if floor is not None]
            return max(known, key=lambda floor: floor.log) if len(known) == len(floors) else None
        return self._reference_floor(reference) if reference else None

    def _reference_floor(self, reference: Match) -> NoiseFloor | None:
        """How far the reference's time of one seed moved otherwise than that of all its seeds.

        That all moved alike is the sitting's speed, which relative times are free of.
        """
        mine, theirs = self.before.cells(reference.before), self.after.cells(reference.after)
        logs = [math.log(theirs[key] / mine[key]) for key in mine if key in theirs]
        if len(logs) < 2:
            return None
        centre = sum(logs) / len(logs)
        return noise_floor([np.array([log - centre]) for log in logs])


def compare(before: StudyStore, after: StudyStore, force: bool) -> Comparison:
    """Read and join two studies.

    Args:
        force: compare times in spite of unlike conditions.

    Raises:
        UsageError: a study that cannot be read, or has no run; two of different modes, or without
            a configuration that both have figures of.
    """
    mine, theirs = _study(before), _study(after)
    modes = mine.records.mode, theirs.records.mode
    if modes[0] != modes[1]:
        raise UsageError(
            f"{before.folder} is of mode {modes[0]} and {after.folder} of mode {modes[1]}: only "
            "studies of one mode can be compared"
        )
    matching = match(mine.records, theirs.records)
    if not matching.matches:
        named = matching.unmatched[:MOST_NAMED]
        held = "; ".join(f"{u.configuration.text}: {u.why}" for u in named)
        raise UsageError(
            f"{before.folder} and {after.folder} have no configuration in common that was run in "
            f"both ({held}): compare studies that share workload, method, density and seed"
        )
    return Comparison(mine, theirs, matching, force)


def _study(store: StudyStore) -> Study:
    records = load(store)
    if records.mode == TIME:
        records, timings = load_times(records)
        return Study(
            records,
            {run_id: timing.step_ms() for run_id, timing in timings.items()},
            {run_id: timing.step_ms(again=True) for run_id, timing in timings.items()},
        )
    # A run is a launch of its own with one value: what its steps do within it is not chance that
    # another run would share.
    means = {
        run["run_id"]: {(run["seed"], 0): float(times.mean())}
        for run in records.shown
        if len(times := run.steps.launch.times)
    }
    return Study(records, means, {})
