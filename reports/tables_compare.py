"""Tables of two studies: step time, counts, accuracy, and what was not compared."""

from collections.abc import Callable, Sequence
from typing import Any

from reports import captions_compare as words
from reports.compare_counts import COUNTS, AccuracyChange, CountChange
from reports.compare_counts import accuracy_changes as all_accuracy_changes
from reports.compare_counts import count_changes as all_count_changes
from reports.compare_match import Match
from reports.compare_times import REFERENCE, Comparison, TimeChange
from reports.formats import estimate, integer, percent, points, spread, two_digits
from reports.summary import Range
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD

SEEDS = Column("seeds", "seeds", integer)


def time_changes(comparison: Comparison) -> Table:
    columns = (
        METHOD,
        DENSITY,
        Column("n_before", "n before", integer),
        Column("n_after", "n after", integer),
        Column("before_ms", "step before, ms [95%]", estimate, interval=True),
        Column("after_ms", "after, ms [95%]", estimate, interval=True),
        Column("time_ratio", "after / before, as measured [95%]", estimate, interval=True),
        Column("ratio_to_dense", f"relative to {REFERENCE} [95%]", estimate, interval=True),
        Column("noise_floor_percent", "noise floor, ±%", two_digits),
        Column("visible_percent", "smallest visible effect, %", two_digits),
        Column("verdict", "verdict", text=True),
    )
    more = ("n_judged", "simultaneous_low", "simultaneous_high", "forced", "unlike_conditions")
    every = (*columns, *(Column(key, key) for key in more))
    changes = comparison.times
    sections = [
        Section(
            words.caption(here[0].match),
            columns,
            [_time_row(change) for change in here],
            words.time_notes(comparison, here),
            heads=2,
        )
        for here in _alike(changes, lambda change: change.match)
    ]
    rows = [(change.match, _time_row(change)) for change in changes]
    notes = [words.times_note(comparison)]
    return Table("compare_time", "Step time, after / before", sections, notes, _csv(every, rows))


def count_changes(comparison: Comparison) -> Table:
    columns = (
        METHOD,
        DENSITY,
        SEEDS,
        Column("count", "count", text=True),
        Column("before", "before"),
        Column("after", "after"),
        Column("difference", "difference"),
        Column("difference_percent", "%"),
    )
    changes = all_count_changes(comparison.matching.matches)
    sections = []
    for here in _alike(changes, lambda change: change.match):
        differing = [change for change in here if not change.is_equal]
        equal = len(here) - len(differing)
        notes = [
            f"{equal:,} of {len(here):,} counts are equal.",
            *_sources(here),
            *_differing(here[0].match),
            *words.section_notes(comparison, [change.match for change in here]),
        ]
        rows = [_count_row(change, COUNTS[change.count]) for change in differing]
        sections.append(Section(words.caption(here[0].match), columns, rows, notes, heads=2))
    every = [(change.match, _count_row(change, change.count)) for change in changes]
    table = _csv(columns, every)
    return Table("compare_counts", "Counts, after / before", sections, [words.COUNTS], table)


def accuracy_changes(comparison: Comparison) -> Table:
    columns = (
        METHOD,
        DENSITY,
        SEEDS,
        Column("before_percent", "top-1 before, % [95%]", percent, interval=True),
        Column("after_percent", "after, % [95%]", percent, interval=True),
        Column("difference_points", "difference, points [95%]", points, interval=True),
    )
    changes = all_accuracy_changes(comparison.matching.matches)
    sections = [
        Section(
            words.caption(here[0].match),
            columns,
            [_accuracy_row(change) for change in here],
            [
                *_differing(here[0].match),
                *words.section_notes(comparison, [change.match for change in here]),
            ],
            heads=2,
        )
        for here in _alike(changes, lambda change: change.match)
    ]
    rows = [(change.match, _accuracy_row(change)) for change in changes]
    table = _csv(columns, rows)
    title = "Accuracy, after minus before"
    return Table("compare_accuracy", title, sections, [words.ACCURACY], table)


def not_compared(comparison: Comparison) -> Table:
    columns = (
        Column("held_by", "held by", text=True),
        Column("workload", "workload", text=True),
        METHOD,
        DENSITY,
        Column("seeds", "seeds"),
        Column("reason", "reason", text=True),
    )
    rows = [
        {
            "held_by": u.side,
            "workload": u.configuration.workload,
            "method": u.configuration.name,
            "density": u.configuration.density,
            "seeds": ", ".join(map(str, u.seeds)),
            "reason": u.why,
        }
        for u in comparison.matching.unmatched
    ]
    caption = "" if rows else "Nothing: every run of both studies is in the tables."
    sections = [Section(caption, columns, rows)]
    return Table("compare_left_out", "Not compared", sections, [words.LEFT_OUT])


def _time_row(change: TimeChange) -> dict[str, Any]:
    judged, floor, basis = change.judged, change.floor, change.basis
    one = Shown("1 (reference)", 1.0)
    return _named(change.match) | {
        "n_before": change.before_ms.runs if change.before_ms else 0,
        "n_after": change.after_ms.runs if change.after_ms else 0,
        "before_ms": change.before_ms,
        "after_ms": change.after_ms,
        "time_ratio": change.measured,
        "ratio_to_dense": one if change.is_reference else change.to_reference,
        "noise_floor_percent": floor and 100 * floor.fraction,
        "visible_percent": judged and judged.visible and 100 * judged.visible,
        "verdict": _verdict(change),
        "n_judged": basis.runs if basis else None,
        "simultaneous_low": judged and judged.low,
        "simultaneous_high": judged and judged.high,
        "forced": change.forced,
        "unlike_conditions": words.conditions(change.match.differences) or None,
    }


def _verdict(change: TimeChange) -> str:
    if change.refused:
        return "not compared"
    if change.is_reference:
        word = "reference"
    else:
        word = str(change.judged.verdict) if change.judged else "no time"
    return f"{word} (forced)" if change.forced else word


def _count_row(change: CountChange, name: str) -> dict[str, Any]:
    mean = change.before.mean
    relative = 100 * change.difference.mean / mean if mean else None
    return _named(change.match) | {
        "seeds": change.seeds,
        "count": name,
        "before": _counted(change.before, "{:,.0f}"),
        "after": _counted(change.after, "{:,.0f}"),
        "difference": _counted(change.difference, "{:+,.0f}"),
        "difference_percent": relative and Shown(f"{relative:+.2f}", relative),
    }


def _counted(values: Range, form: str) -> Shown:
    exact = values.low if values.low == values.high else values.mean
    return Shown(spread(values, form.format), exact)


def _accuracy_row(change: AccuracyChange) -> dict[str, Any]:
    return _named(change.match) | {
        "seeds": change.difference.runs,
        "before_percent": change.before,
        "after_percent": change.after,
        "difference_points": change.difference,
    }


def _named(m: Match) -> dict[str, Any]:
    return {"method": m.configuration.name, "density": m.configuration.density}


def _sources(changes: Sequence[CountChange]) -> list[str]:
    """Peaks of an allocator and of accounted tensors are different things."""
    before, after = (
        " or ".join(sorted({str(run["memory_source"]) for runs in sides for run in runs}))
        for sides in zip(*((c.match.before, c.match.after) for c in changes), strict=True)
    )
    return [f"Peak memory is {before} before and {after} after."] if before != after else []


def _differing(m: Match) -> list[str]:
    differing = words.conditions(m.differences)
    return [f"Conditions differ: {differing}."] if differing else []


def _alike(changes: Sequence[Any], match_of: Callable[[Any], Match]) -> list[list[Any]]:
    """Rows of the same settings and unlike conditions together, in order."""
    groups: dict[Any, list[Any]] = {}
    for change in changes:
        m = match_of(change)
        groups.setdefault((m.settings, m.differences), []).append(change)
    return list(groups.values())


def _csv(columns: Sequence[Column], rows: Sequence[tuple[Match, dict[str, Any]]]) -> Section:
    """All rows, each with both settings."""
    settings = [words.setting_columns(m) for m, _ in rows]
    heads = [Column(name, name) for name in (settings[0] if settings else ())]
    named = [setting | row for setting, (_, row) in zip(settings, rows, strict=True)]
    return Section("", [*heads, *columns], named)
