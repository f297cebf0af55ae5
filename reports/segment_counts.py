"""From rows of the segments table to counts per kind of step, as those of a run in full."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.timing.segments import FINAL
from reports.load import KIND_OF_FLAG, NO_STEPS, ORDINARY_KIND, UPDATE_KIND, Steps
from reports.step_counts import Count, Counts

Row = Mapping[str, Any]


def counted_steps(rows: Sequence[Row], total_steps: int) -> Steps:
    """What the segments of one run say of its steps: counts, and no times.

    Args:
        total_steps: of the schedule, which has every segment as often as its share says.
    """
    return replace(
        NO_STEPS,
        operators=_counts(rows, total_steps, "dispatched_operators"),
        synchronisations=_counts(rows, total_steps, "host_synchronisations"),
        peaks=_counts(rows, total_steps, "peak_allocated_bytes"),
    )


def _counts(rows: Sequence[Row], total_steps: int, column: str) -> Counts:
    """Empty unless every segment knows its value."""
    values = {row["segment"]: row[column] for row in rows}
    steps: dict[str, float] = defaultdict(float)
    for row in rows:
        steps[row["segment"]] += row["share"] * total_steps
        if row["base"]:  # an update stands where a step of the base would have
            steps[row["base"][0]] -= row["share"] * total_steps
    if None in values.values() or steps.keys() - values.keys():
        return {}
    kinds: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        kinds[_kind(row)].append(row["segment"])
    counts = {
        kind: Count(
            min(values[name] for name in names),
            max(values[name] for name in names),
            sum(values[name] * steps[name] for name in names),
            sum(steps[name] for name in names),
        )
        for kind, names in kinds.items()
    }
    return {kind: count for kind, count in counts.items() if count.steps > 0}


def _kind(row: Row) -> int:
    if row["base"]:
        return UPDATE_KIND
    return kind_of(row["segment"].removesuffix(FINAL).split("+"))


def kind_of(flags: Iterable[str]) -> int:
    """As reports tell steps apart: one that is of several kinds counts as the last of them."""
    return max((KIND_OF_FLAG.get(flag, ORDINARY_KIND) for flag in flags), default=ORDINARY_KIND)
