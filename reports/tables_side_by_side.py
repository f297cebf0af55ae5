"""Tables of contenders timed side by side: step time, kinds of step, update cost, all pairs."""

from collections.abc import Sequence
from typing import Any

from reports import captions_time
from reports.captions_time import launches_and_rounds
from reports.formats import estimate, integer, share, two_digits
from reports.load import Records
from reports.paired import inverse, log_ratios, mean_ratio
from reports.side_by_side import NO_BLOCK, Comparison
from reports.speedups import settings_apart
from reports.summary_time import SegmentTimes, TimedContender
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD, section

ORDINARY = "ordinary"
REFERENCE = "1 (reference)"
LAUNCHES = Column("launches_rounds", "launches / rounds")


def step_time_side_by_side(records: Records, comparisons: Sequence[Comparison]) -> Table:
    columns = [
        METHOD,
        DENSITY,
        LAUNCHES,
        Column("step_mean_ms", "mean, ms [95%]", estimate, interval=True),
        Column("step_median_ms", "median, ms [95%]", estimate, interval=True),
        Column("ratio_to_dense", "time relative to dense [95%]", estimate, interval=True),
        Column("speedup_over_dense", "speed-up over dense [95%]", estimate, interval=True),
        Column("noise_floor_percent", "noise floor, ±%", two_digits),
        Column("visible_percent", "smallest visible effect, %", two_digits),
        Column("verdict", "verdict", text=True),
        Column("flagged_blocks", "flagged blocks"),
        Column("reason_codes", "cautions", text=True),
    ]
    if not any(t.codes for c in comparisons for t in c.contenders):
        columns.pop()
    sections = []
    for comparison in comparisons:
        rows = [_step_time_row(comparison, contender) for contender in comparison.contenders]
        notes = [*captions_time.settings_notes(comparison), captions_time.family(comparison)]
        sections.append(_section(records, comparison, columns, rows, comparison.contenders, notes))
    notes = [
        "The schedule-weighted mean step: every kind of step as often as the full schedule has it, "
        "and the cost of its updates. The median is weighted likewise. Time relative to dense: "
        "below 1 the method is faster; speed-up is its inverse.",
        *settings_apart([t.facts for c in comparisons for t in c.contenders], records.forced),
        *(captions_time.INTERVAL, captions_time.VERDICTS),
        *(captions_time.FLOOR, captions_time.FLAGGED),
    ]
    return Table("step_time_side_by_side", "Step time side by side", sections, notes)


def _step_time_row(comparison: Comparison, contender: TimedContender) -> dict[str, Any]:
    row: dict[str, Any] = {
        "launches_rounds": launches_and_rounds(contender),
        "step_mean_ms": contender.mean or Shown(NO_BLOCK),
        "step_median_ms": contender.median,
        "noise_floor_percent": comparison.floor and 100 * comparison.floor.fraction,
        "flagged_blocks": _of(contender.segments),
        "reason_codes": ", ".join(contender.codes) or None,
    }
    if not contender.facts.contender.valid:
        return row | {"ratio_to_dense": Shown("invalid"), "verdict": "invalid"}
    if contender is comparison.dense:
        one = Shown(REFERENCE, 1.0)
        return row | {"ratio_to_dense": one, "speedup_over_dense": one, "verdict": "reference"}
    pair = comparison.pair(contender, comparison.dense) if comparison.dense else None
    if pair is None:
        return row
    return row | {
        "ratio_to_dense": pair.judged.ratio,
        "speedup_over_dense": inverse(pair.judged.ratio),
        "visible_percent": pair.judged.visible and 100 * pair.judged.visible,
        "verdict": str(pair.judged.verdict),
    }


def kinds_side_by_side(records: Records, comparisons: Sequence[Comparison]) -> Table:
    """A row for every segment of every contender."""
    columns = (
        METHOD,
        DENSITY,
        Column("segment", "kind of step", text=True),
        Column("share_percent", "per 100 steps", share),
        Column("mean_ms", "mean, ms [95%]", estimate, interval=True),
        Column("median_ms", "median, ms [95%]", estimate, interval=True),
        Column(
            "ratio_to_dense_ordinary", "relative to dense's ordinary step [95%]", estimate, True
        ),
        Column("timed", "n, steps or windows", integer),
        Column("flagged_blocks", "flagged blocks"),
    )
    sections = []
    for comparison in comparisons:
        rows, owners = [], []
        for contender in comparison.contenders:
            for times in contender.segments:
                owners.append(contender)
                rows.append(_kind_row(comparison, times))
        notes = captions_time.settings_notes(comparison)
        sections.append(_section(records, comparison, columns, rows, owners, notes))
    notes = [
        "Per 100 steps of the full schedule: steps of the kind, or updates. An update window is an "
        "update step and those after it, timed as a whole; its ratio is to as many ordinary steps "
        "of dense.",
        *(captions_time.INTERVAL, captions_time.FLAGGED),
    ]
    return Table("kinds_side_by_side", "Kinds of step, side by side", sections, notes)


def _kind_row(comparison: Comparison, times: SegmentTimes) -> dict[str, Any]:
    part = times.part
    name = part.name.replace("_", " ")
    return {
        "segment": f"{name} (window of {part.length} steps)" if part.is_window else name,
        "share_percent": 100 * part.share,
        "mean_ms": times.mean or Shown(NO_BLOCK),
        "median_ms": times.median,
        "ratio_to_dense_ordinary": _to_ordinary(comparison, times),
        "timed": times.count,
        "flagged_blocks": _of([times]),
    }


def _to_ordinary(comparison: Comparison, times: SegmentTimes) -> Any:
    ordinary = comparison.dense.segment(ORDINARY) if comparison.dense else None
    if ordinary is None:
        return None
    if times is ordinary:
        return Shown(REFERENCE, 1.0)
    per_step = {key: ms / times.part.length for key, ms in times.cells.items()}
    return mean_ratio(log_ratios(per_step, ordinary.cells))


def update_cost(records: Records, comparisons: Sequence[Comparison]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        LAUNCHES,
        Column("windows", "windows timed", integer),
        Column("updates", "updates per run", integer),
        Column("update_ms", "ms per update [95%]", estimate, interval=True),
        Column("update_ms_per_step", "ms per optimizer step [95%]", estimate, interval=True),
        Column("update_s_per_run", "s per full run [95%]", estimate, interval=True),
    )
    sections = []
    for comparison in comparisons:
        updating = [t for t in comparison.contenders if t.update]
        rows = [
            {
                "launches_rounds": launches_and_rounds(contender),
                "windows": cost.windows,
                "updates": cost.updates,
                "update_ms": cost.per_update_ms,
                "update_ms_per_step": cost.per_step_ms,
                "update_s_per_run": cost.per_run_s,
            }
            for contender in updating
            if (cost := contender.update)
        ]
        if rows:
            notes = captions_time.settings_notes(comparison)
            sections.append(_section(records, comparison, columns, rows, updating, notes))
    notes = [
        "An update's cost: its window minus as many steps of the kinds that would have stood there "
        "without it, within each round. The full run is the schedule that the caption names.",
        captions_time.INTERVAL,
    ]
    return Table("update_cost", "Update cost", sections, notes)


def _section(
    records: Records,
    comparison: Comparison,
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    owners: Sequence[TimedContender],
    notes: Sequence[str],
) -> Section:
    facts = [contender.facts for contender in owners]
    return section(records, comparison.setting, facts, columns, rows, notes)


def _of(segments: Sequence[SegmentTimes]) -> Shown:
    flagged, blocks = (sum(getattr(s, n) for s in segments) for n in ("flagged", "blocks"))
    return Shown(f"{flagged} of {blocks:,}", flagged)
