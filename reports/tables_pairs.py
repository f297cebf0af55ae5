"""Every contender against every other one, with verdicts; and what was not timed at all."""

from collections.abc import Sequence
from typing import Any

from reports import captions, captions_time
from reports.formats import estimate, integer
from reports.load import Records
from reports.side_by_side import Comparison, Pair, why_not
from reports.speedups import settings_apart
from reports.summary_time import TimedContender
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD

OUTSIDE = (
    (
        "data loading and batch preparation",
        "the batch is on the device before a step's clock starts",
    ),
    ("evaluation", "none is done while blocks are timed"),
    ("checkpoint export", "none is done while blocks are timed"),
    ("restore of state", "before every block and every update window, then unscored steps"),
    (
        "compilation, autotuning and warm-up",
        "every kind of step is taken before the first round, and undone",
    ),
    ("start of the process", "contenders are built before the first round"),
)
"""What a run spends time on that is in no figure, and where it happens instead."""


def pairs_side_by_side(records: Records, comparisons: Sequence[Comparison]) -> Table:
    """Row relative to column. As CSV: one line per ordered pair."""
    sections = []
    for comparison in comparisons:
        there = [t for t in comparison.contenders if not why_not(t)]
        if len(there) < 2:
            continue
        names = [t.facts.contender.label_with_density for t in there]
        columns = [Column("row", "row relative to column", text=True)]
        columns += [Column(name, name, interval=True) for name in names]
        rows = [
            {
                "row": name,
                **{n: _cell(comparison, mine, t) for n, t in zip(names, there, strict=True)},
            }
            for name, mine in zip(names, there, strict=True)
        ]
        runs = [run for t in comparison.contenders for run in t.runs]
        notes = [
            *captions_time.settings_notes(comparison),
            captions_time.family(comparison),
            *captions_time.marked(comparison),
            *captions.left_out(records, comparison.setting),
        ]
        caption = captions.caption(comparison.setting, runs)
        sections.append(Section(caption, columns, rows, notes))
    notes = [
        "Time of the row divided by that of the column: below 1, the row is faster.",
        *settings_apart([t.facts for c in comparisons for t in c.contenders], records.forced),
        *(captions_time.INTERVAL, captions_time.VERDICTS, captions_time.FLOOR),
    ]
    title = "Time, each relative to each other"
    return Table("pairs_side_by_side", title, sections, notes, _list(comparisons))


def _cell(comparison: Comparison, mine: TimedContender, theirs: TimedContender) -> Any:
    if mine is theirs:
        return "1"
    pair = comparison.pair(mine, theirs)
    if pair is None:
        return None
    ratio = pair.judged.ratio
    mark = f" {captions_time.MARK}" * bool(mine.codes or theirs.codes)
    return Shown(f"{estimate(ratio)} {pair.judged.verdict}{mark}", ratio.value)


def _list(comparisons: Sequence[Comparison]) -> Section:
    settings = [captions.setting_columns(comparison.setting) for comparison in comparisons]
    plain = (
        *("simultaneous_low", "simultaneous_high", "verdict", "noise_floor", "smallest_visible"),
        *("launches", "rounds", "reason_codes"),
    )
    columns = (
        *(Column(name, name) for name in settings[0]),
        METHOD,
        DENSITY,
        Column("relative_to_method", "relative to"),
        Column("relative_to_density", "density"),
        Column("time_ratio", "time ratio", estimate, interval=True),
        Column("median_ratio", "ratio of medians", estimate, interval=True),
        *(Column(key, key, integer) for key in plain),
    )
    rows = [
        {**setting, **_list_row(comparison, turned)}
        for setting, comparison in zip(settings, comparisons, strict=True)
        for pair in comparison.pairs
        for turned in (pair, pair.turned())
    ]
    return Section("", columns, rows)


def _list_row(comparison: Comparison, pair: Pair) -> dict[str, Any]:
    mine, theirs, judged = pair.mine.facts.contender, pair.theirs.facts.contender, pair.judged
    return {
        "method": mine.label,
        "density": mine.density,
        "relative_to_method": theirs.label,
        "relative_to_density": theirs.density,
        "time_ratio": judged.ratio,
        "median_ratio": pair.median_ratio,
        "simultaneous_low": judged.low,
        "simultaneous_high": judged.high,
        "verdict": str(judged.verdict),
        "noise_floor": comparison.floor and comparison.floor.fraction,
        "smallest_visible": judged.visible,
        "launches": judged.ratio.runs,
        "rounds": judged.ratio.steps,
        "reason_codes": " ".join(pair.codes) or None,
    }


def outside_the_clock(records: Records, comparisons: Sequence[Comparison]) -> Table:
    columns = (
        Column("activity", "not timed", text=True),
        Column("value", "where it happens", text=True),
    )
    rows = [{"activity": what, "value": where} for what, where in OUTSIDE]
    return Table("outside_the_clock", "Outside the clock", [Section("", columns, rows)])
