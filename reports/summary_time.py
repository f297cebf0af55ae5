"""One summary per contender that was timed side by side with others."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.timing.segments import Segment
from reports.load import Run
from reports.load_time import Block, Key, Timing
from reports.paired import Cells, by_launch, mean, mean_difference, scaled
from reports.segment_counts import Row
from reports.statistics import Estimate
from reports.summary import Summary

FENCE = 1.5
"""Tukey's: a value further than this many interquartile ranges outside the quartiles is flagged."""


@dataclass(frozen=True)
class SegmentTimes:
    """One kind of step, or update windows (whole ones), of one contender."""

    part: Segment
    mean: Estimate | None
    median: Estimate | None
    cells: Cells  # means by round
    blocks: int
    count: int  # steps or windows
    flagged: int  # blocks outside the fences


@dataclass(frozen=True)
class UpdateCost:
    """Windows minus the steps that would have stood there without an update."""

    per_update_ms: Estimate
    per_step_ms: Estimate  # per optimizer step of the schedule
    per_run_s: Estimate  # of the run's whole schedule
    updates: int  # in that schedule
    windows: int  # that were timed


@dataclass(frozen=True, eq=False)
class TimedContender:
    """Schedule-weighted times; None where no round was timed whole."""

    facts: Summary  # what does not come from blocks; its step times are empty
    mean: Estimate | None
    median: Estimate | None
    cells: Cells  # schedule-weighted means by round
    median_cells: Cells
    again: Cells  # of the reference's second entry; empty for others
    segments: tuple[SegmentTimes, ...]
    update: UpdateCost | None
    costs: tuple[Row, ...]  # of each segment, that of the run with the largest peak

    @property
    def flagged(self) -> int:
        return sum(part.flagged for part in self.segments)

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.facts.contender.runs

    @property
    def codes(self) -> list[str]:
        """Why its figures deserve caution: what its runs carry."""
        codes = [code for run in self.runs for code in run["reason_codes"] or ()]
        return list(dict.fromkeys(codes))

    def segment(self, name: str) -> SegmentTimes | None:
        return next((times for times in self.segments if times.part.name == name), None)


def summarise_times(facts: Summary, timings: Mapping[str, Timing]) -> TimedContender:
    """From the timings of a contender's runs, one per seed."""
    timed = [timings[run["run_id"]] for run in facts.contender.runs if run["run_id"] in timings]
    cells = _merged(one.step_ms() for one in timed)
    median_cells = _merged(one.step_ms("median_ms") for one in timed)
    segments = tuple(_segment(part, timed) for part in _parts(timed))
    return TimedContender(
        facts=facts,
        mean=mean(by_launch(cells)),
        median=mean(by_launch(median_cells)),
        cells=cells,
        median_cells=median_cells,
        again=_merged(one.step_ms(again=True) for one in timed),
        segments=segments,
        update=_update(segments, timed, facts.contender.setting["total_steps"] or 0),
        costs=_costs(timed),
    )


def outliers(values: Sequence[float]) -> int:
    """How many lie outside Tukey's fences."""
    if not values:
        return 0
    low, high = np.quantile(values, (0.25, 0.75))
    reach = FENCE * (high - low)
    return int(((np.asarray(values) < low - reach) | (np.asarray(values) > high + reach)).sum())


def _parts(timed: Sequence[Timing]) -> list[Segment]:
    """The segments of one schedule: that of every run of a contender."""
    return list({part.name: part for one in timed for part in one.segments}.values())


def _costs(timed: Sequence[Timing]) -> tuple[Row, ...]:
    largest: dict[str, Row] = {}
    for row in (row for one in timed for row in one.costs):
        name, peak = row["segment"], row["peak_allocated_bytes"] or 0
        if name not in largest or peak > (largest[name]["peak_allocated_bytes"] or 0):
            largest[name] = row
    return tuple(largest.values())


def _segment(part: Segment, timed: Sequence[Timing]) -> SegmentTimes:
    blocks: dict[Key, Block] = {}
    for one in timed:
        blocks |= one.contender.get(part.name, {})
    cells = _merged(one.segment_ms(part.name) for one in timed)
    medians = _merged(one.segment_ms(part.name, "median_ms") for one in timed)
    return SegmentTimes(
        part=part,
        mean=mean(by_launch(cells)),
        median=mean(by_launch(medians)),
        cells=cells,
        blocks=len(blocks),
        count=sum(block.count for block in blocks.values()),
        flagged=outliers(list(cells.values())),
    )


def _update(
    segments: Sequence[SegmentTimes], timed: Sequence[Timing], total_steps: int
) -> UpdateCost | None:
    window = next((times for times in segments if times.part.is_window), None)
    if window is None:
        return None
    cells = _merged(one.update_ms(window.part) for one in timed)
    cost = mean_difference(by_launch(cells))
    if cost is None:
        return None
    updates = round(window.part.share * total_steps)
    per_run_s = scaled(cost, updates / 1000)
    return UpdateCost(cost, scaled(cost, window.part.share), per_run_s, updates, window.count)


def _merged(cells: Iterable[Cells]) -> Cells:
    """Of several runs, whose launches are different ones."""
    return dict(ChainMap(*map(dict, cells)))
