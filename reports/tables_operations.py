"""The table of what keeps the host busy: operators dispatched and waits for the device."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.modes import TIME
from reports.formats import integer, number, spread
from reports.load import (
    COLLECTING_KIND,
    DENSE_GRADIENT_KIND,
    ORDINARY_KIND,
    UPDATE_KIND,
    Records,
)
from reports.step_counts import Count, Counts, over_runs, together
from reports.summary import Range, Summary
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section

PLAIN_KINDS = {
    ORDINARY_KIND: "ordinary",
    COLLECTING_KIND: "collecting",
    DENSE_GRADIENT_KIND: "dense gradient",
}
"""Kinds of step without an update, the plainest first."""

_WHAT = (
    "Ops: ATen operators dispatched in a whole step, a fused or foreach operator as one, "
    "views among them. Waits: host synchronisations, that is values read by the host, results "
    "whose shape the data decide, blocking copies between host and device; not what an operator "
    "waits for inside. On a CPU, those that the step would have on a GPU."
)
NOTES = (
    _WHAT,
    "Step: the most frequent kind of step without an update, named under kind. Update: steps with "
    "a topology update. Mean: over all steps of the executed schedule, warm-up among them. Exact "
    "counts, so no interval; smallest to largest where steps or runs differ (CSV: their mean).",
    "Counted in an untimed repetition of the first step of each kind. Of masked methods the first "
    "update stands for all; of methods that transfer units, every update is counted.",
)
NOTES_TIME = (
    _WHAT,
    "Step: the most frequent kind of step without an update, named under kind. Update: the update "
    "step of a window. Mean: over all steps of the full schedule, each kind as often as it has it. "
    "Exact counts, so no interval; smallest to largest where steps or runs differ (CSV: mean).",
    "Counted in an untimed replay of one step of every segment. One update stands for all.",
)
"""Of contenders that were timed side by side."""


def operations(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("step_kind", "kind", text=True),
        # Each head says what it counts: a narrow terminal cuts the table between any two.
        Column("operators_step", "ops: step"),
        Column("operators_update", "ops: update"),
        Column("operators_per_step", "ops: mean", integer),
        Column("synchronisations_step", "waits: step"),
        Column("synchronisations_update", "waits: update"),
        Column("synchronisations_per_step", "waits: mean", number),
    )
    sections = []
    for setting, here in by_setting(summaries):
        rows = [_row(s) for s in here]
        if any(rows):
            sections.append(section(records, setting, here, columns, rows))
    notes = NOTES_TIME if records.mode == TIME else NOTES
    return Table("operations", "Operators and host synchronisations", sections, notes)


def _row(summary: Summary) -> dict[str, Any]:
    """A contender's figures; empty if its records are older than the counts."""
    steps = [run.steps for run in summary.contender.runs]
    operators = over_runs(each.operators for each in steps)
    waits = over_runs(each.synchronisations for each in steps)
    if not operators or not waits:
        return {}
    plain = _plain_kind(operators)
    return {
        "step_kind": None if plain is None else PLAIN_KINDS[plain],
        **_figures("operators", operators, plain),
        **_figures("synchronisations", waits, plain),
    }


def _plain_kind(counts: Counts) -> int | None:
    """The most frequent kind without an update; of equals the plainest."""
    there = [kind for kind in PLAIN_KINDS if kind in counts]
    return max(there, key=lambda kind: counts[kind].steps) if there else None


def _figures(what: str, counts: Counts, plain: int | None) -> Mapping[str, Any]:
    every = together(counts.values())
    return {
        f"{what}_step": _shown(counts.get(plain)) if plain is not None else None,
        f"{what}_update": _shown(counts.get(UPDATE_KIND)),
        f"{what}_per_step": every.mean if every else None,
    }


def _shown(count: Count | None) -> Shown | None:
    if count is None:
        return None
    return Shown(spread(Range(count.low, count.high, count.mean), integer), count.mean)
