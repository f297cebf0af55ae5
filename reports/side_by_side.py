"""Contenders of one setting against each other: ratios paired by round, A/A, verdicts.

A ratio is time over time: below 1, the first one takes less.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from bench.store import StudyStore
from reports.contenders import Setting, group
from reports.load import NO_UPDATE, Records, load
from reports.load_time import load_times
from reports.paired import (
    Launches,
    NoiseFloor,
    half_width,
    inverse,
    log_ratios,
    mean_ratio,
    noise_floor,
)
from reports.speedups import dense_reference
from reports.statistics import Estimate
from reports.summary import summarise
from reports.summary_time import TimedContender, summarise_times
from reports.table_parts import by_setting
from reports.verdicts import Judged, judge

NO_BLOCK = "no round was timed whole"


@dataclass(frozen=True)
class Pair:
    """Time of `mine` over time of `theirs`."""

    mine: TimedContender
    theirs: TimedContender
    judged: Judged
    median_ratio: Estimate | None  # of schedule-weighted medians

    @property
    def codes(self) -> list[str]:
        """Why the ratio deserves caution: what its runs carry, and what the verdict lacks."""
        return list(dict.fromkeys([*self.judged.codes, *self.mine.codes, *self.theirs.codes]))

    def turned(self) -> "Pair":
        """Theirs over mine."""
        low, high = (
            None if end is None else 1 / end for end in (self.judged.high, self.judged.low)
        )
        judged = replace(
            self.judged,
            ratio=inverse(self.judged.ratio),
            low=low,
            high=high,
            verdict=self.judged.verdict.inverse,
        )
        return Pair(
            self.theirs, self.mine, judged, self.median_ratio and inverse(self.median_ratio)
        )


@dataclass(frozen=True)
class Comparison:
    """One setting."""

    setting: Setting
    contenders: list[TimedContender]
    dense: TimedContender | None
    again: Estimate | None  # the reference over itself, entered twice
    floor: NoiseFloor | None
    pairs: list[Pair]  # every unordered one once, in the contenders' order

    def pair(self, mine: TimedContender, theirs: TimedContender) -> Pair | None:
        """None if the two may not be compared or share no round."""
        for pair in self.pairs:
            if pair.mine is mine and pair.theirs is theirs:
                return pair
            if pair.mine is theirs and pair.theirs is mine:
                return pair.turned()
        return None


def compared(records: Records) -> tuple[Records, list[Comparison]]:
    """Every setting of a study that was timed side by side, and its records, checked."""
    records, timings = load_times(records)
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    comparisons = []
    for setting, here in by_setting(summaries):
        timed = [summarise_times(summary, timings) for summary in here]
        dense = dense_reference(here, setting)
        comparisons.append(
            _comparison(setting, timed, next((t for t in timed if t.facts is dense), None))
        )
    return records, comparisons


def why_not(contender: TimedContender) -> str:
    """Why it is in no ratio; empty if it may be."""
    if not contender.facts.contender.valid:
        return NO_UPDATE
    return "" if contender.cells else NO_BLOCK


def widest_half_width(store: StudyStore, run_ids: Sequence[str]) -> float | None:
    """Of all ratios between these runs, and of A/A: half the widest 95 % interval, as a fraction of
    the ratio. None while a ratio has no interval, or there is none. When to stop timing."""
    records = load(store)
    wanted = set(run_ids)
    chosen = replace(records, runs=[run for run in records.runs if run["run_id"] in wanted])
    _, comparisons = compared(chosen)
    ratios = [pair.judged.ratio for c in comparisons for pair in c.pairs]
    ratios += [c.again for c in comparisons if c.again]
    widths = [half_width(ratio) for ratio in ratios]
    known = [width for width in widths if width is not None]
    return max(known) if known and len(known) == len(widths) else None


def _comparison(
    setting: Setting, timed: list[TimedContender], dense: TimedContender | None
) -> Comparison:
    # Of one launch there is one reference; another one may have taken over in a later launch.
    again: Launches = [x for t in timed if t.again for x in log_ratios(t.cells, t.again)]
    floor = noise_floor(again)
    found = []
    for mine, theirs in combinations([t for t in timed if not why_not(t)], 2):
        ratio = mean_ratio(log_ratios(mine.cells, theirs.cells))
        if ratio is not None:
            medians = mean_ratio(log_ratios(mine.median_cells, theirs.median_cells))
            found.append((mine, theirs, ratio, medians))
    verdicts = judge([ratio for _, _, ratio, _ in found], floor)
    pairs = [
        Pair(mine, theirs, judged, medians)
        for (mine, theirs, _, medians), judged in zip(found, verdicts, strict=True)
    ]
    return Comparison(setting, timed, dense, mean_ratio(again), floor, pairs)
