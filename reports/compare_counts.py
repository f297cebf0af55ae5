"""What is counted rather than timed, in two studies: exact differences, seed by seed; accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.compare_match import Match
from reports.load import Run
from reports.statistics import Estimate, student_mean
from reports.summary import Range, by_seed, difference_by_seed

COUNTS = {
    "peak_allocated_bytes": "peak memory, bytes",
    "macs_forward_per_image": "MACs per image, forward",
    "macs_backward_per_image": "MACs per image, backward",
    "training_macs_total": "MACs of the run, executed",
    "ideal_training_macs_total": "MACs of the run, ideal",
    "active_parameters": "active parameters",
    "stored_parameters": "stored parameters",
}
"""Columns of the runs, and their names for people."""
ACCURACY = "test_top1_percent"


@dataclass(frozen=True)
class CountChange:
    """One count of one configuration; ranges over the seeds that both sides know it of."""

    match: Match
    count: str
    before: Range
    after: Range
    difference: Range
    """after - before of every seed."""
    seeds: int

    @property
    def is_equal(self) -> bool:
        return not (self.difference.low or self.difference.high)


@dataclass(frozen=True)
class AccuracyChange:
    """Test top-1 in percent, its difference in points; Student's t over seeds."""

    match: Match
    before: Estimate
    after: Estimate
    difference: Estimate


def count_changes(matches: Sequence[Match]) -> list[CountChange]:
    """Of every match all counts that both sides recorded."""
    found = []
    for m in matches:
        for count in COUNTS:
            mine, theirs = _by_seed(m.before, count), _by_seed(m.after, count)
            seeds = sorted(mine.keys() & theirs.keys())
            if seeds:
                ranges = (
                    _range([mine[seed] for seed in seeds]),
                    _range([theirs[seed] for seed in seeds]),
                    _range([theirs[seed] - mine[seed] for seed in seeds]),
                )
                found.append(CountChange(m, count, *ranges, len(seeds)))
    return found


def accuracy_changes(matches: Sequence[Match]) -> list[AccuracyChange]:
    """Of every match whose accuracy is known on both sides for a common seed. Generated data
    teaches nothing: its accuracy is no figure."""
    found = []
    for m in matches:
        if any(run["synthetic_data"] for run in (*m.before, *m.after)):
            continue
        mine, theirs = by_seed(m.before, ACCURACY), by_seed(m.after, ACCURACY)
        common = sorted(mine.keys() & theirs.keys())
        before = student_mean([mine[seed] for seed in common])
        after = student_mean([theirs[seed] for seed in common])
        difference = difference_by_seed(theirs, mine)
        if before and after and difference:
            found.append(AccuracyChange(m, before, after, difference))
    return found


def _by_seed(runs: Sequence[Run], column: str) -> dict[int, int | float]:
    return {run["seed"]: run[column] for run in runs if run[column] is not None}


def _range(values: Sequence[int | float]) -> Range:
    return Range(min(values), max(values), sum(values) / len(values))
