"""Ratios between contenders that may not be compared: only where they were asked for, and marked.

Each row says in what its two contenders differ. What may be compared is in the other tables.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reports.contenders import COMPARABLE, Contender
from reports.formats import estimate
from reports.paired import inverse, log_ratios, mean_ratio
from reports.side_by_side import Comparison
from reports.side_by_side import why_not as why_not_timed
from reports.speedups import named_value
from reports.statistics import Estimate, ratio
from reports.summary import Summary
from reports.summary_time import TimedContender
from reports.table import Column, Section, Table
from reports.table_parts import DENSITY, METHOD

KEY = "across_settings"
_COLUMNS = (
    METHOD,
    DENSITY,
    Column("with", "with", text=True),
    Column("over_method", "over", text=True),
    Column("over_density", "density", DENSITY.show),
    Column("over_with", "with", text=True),
    Column("speedup", "forced speed-up [95%]", estimate, interval=True),
    Column("reason_codes", "cautions", text=True),
)
_WARNING = (
    "Asked for by --force. These contenders differ in more than their method, as each row says: no "
    "such ratio is the effect of a method alone."
)
_TRAINED_NOTE = (
    "Mean step time of the contender named second divided by that of the first; above 1, "
    "the first is faster. A contender stands against its namesakes and the dense ones of other "
    "settings."
)
_TIMED_NOTE = f"{_TRAINED_NOTE} Paired by round where they were timed in the same launches."

T = TypeVar("T")


def trained(summaries: Sequence[Summary]) -> Table:
    """Of runs that were trained one after the other."""

    def speedup(fast: Summary, slow: Summary) -> Estimate | None:
        if fast.times.mean is None or slow.times.mean is None:
            return None
        return ratio(numerator=slow.times.mean, denominator=fast.times.mean)

    rows = _rows(summaries, lambda summary: summary.contender, speedup)
    return _table(rows, _TRAINED_NOTE)


def timed(comparisons: Sequence[Comparison]) -> Table:
    """Of contenders that were timed side by side."""

    def speedup(fast: TimedContender, slow: TimedContender) -> Estimate | None:
        if why_not_timed(fast) or why_not_timed(slow):
            return None
        found = mean_ratio(log_ratios(fast.cells, slow.cells))
        return found and inverse(found)

    everyone = [contender for comparison in comparisons for contender in comparison.contenders]
    return _table(_rows(everyone, lambda one: one.facts.contender, speedup), _TIMED_NOTE)


def _table(rows: Sequence[dict[str, Any]], note: str) -> Table:
    return Table(
        KEY, "Forced: ratios across settings", [Section("", _COLUMNS, rows)], [_WARNING, note]
    )


def _rows(
    entries: Sequence[T],
    contender_of: Callable[[T], Contender],
    speedup: Callable[[T, T], Estimate | None],
) -> list[dict[str, Any]]:
    rows = []
    for i, fast in enumerate(entries):
        for j, slow in enumerate(entries):
            mine, theirs = contender_of(fast), contender_of(slow)
            if not _stands_against(mine, theirs, later=i > j):
                continue
            factor = speedup(fast, slow)
            if factor is not None:
                rows.append(_named(mine, theirs) | {"speedup": factor})
    return rows


def _stands_against(mine: Contender, theirs: Contender, later: bool) -> bool:
    """Every pair once: namesakes in order, others over dense."""
    if mine.setting == theirs.setting or not (mine.valid and theirs.valid):
        return False
    if mine.setting["workload"] != theirs.setting["workload"]:
        return False
    namesakes = mine.name_with_density == theirs.name_with_density
    return later if namesakes else theirs.method == "dense" != mine.method


def _named(mine: Contender, theirs: Contender) -> dict[str, Any]:
    differing = mine.setting.difference(theirs.setting)
    return {
        "method": mine.name,
        "density": mine.density,
        "with": _values(mine, differing),
        "over_method": theirs.name,
        "over_density": theirs.density,
        "over_with": _values(theirs, differing),
        "reason_codes": _codes(mine, theirs),
    }


def _codes(*contenders: Contender) -> str | None:
    """Why a ratio deserves caution: what the runs of either side carry."""
    codes = [c for one in contenders for run in one.runs for c in run["reason_codes"] or ()]
    return ", ".join(dict.fromkeys(codes)) or None


def _values(contender: Contender, columns: Sequence[str]) -> str:
    values = (f"{c} {named_value(contender.setting[c])}" for c in COMPARABLE if c in columns)
    return ", ".join(values)
