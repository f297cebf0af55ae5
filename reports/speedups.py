"""Ratios of mean step times between contenders of one setting, and why others are left out.

The speed-up of A over B is B's mean step time divided by A's: above 1, A is faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.contenders import COMPARABLE, Setting
from reports.load import NO_UPDATE
from reports.statistics import Estimate, ratio
from reports.summary import Summary


@dataclass(frozen=True)
class Speedup:
    """`fast` over `slow` (names of the two places, not a claim about which is faster)."""

    fast: Summary
    slow: Summary
    factor: Estimate


def speedup(fast: Summary, slow: Summary) -> Estimate | None:
    """Speed-up of `fast` over `slow`; None if they may not be compared or lack times."""
    if why_not(fast, slow):
        return None
    assert fast.times.mean is not None
    assert slow.times.mean is not None
    return ratio(numerator=slow.times.mean, denominator=fast.times.mean)


def why_not(fast: Summary, slow: Summary) -> str:
    """Why no ratio of the two may be stated; empty if one may."""
    for side in (fast, slow):
        if not side.contender.valid:
            return NO_UPDATE
        if side.times.mean is None:
            return "no timed step after warm-up"
    differing = fast.contender.setting.difference(slow.contender.setting)
    return f"different {', '.join(differing)}" if differing else ""


def dense_reference(summaries: Sequence[Summary], setting: Setting) -> Summary | None:
    """The valid dense contender of a setting; None if it has none, or several variants."""
    found = [
        summary
        for summary in summaries
        if summary.contender.setting == setting
        and summary.contender.method == "dense"
        and summary.contender.valid
    ]
    return found[0] if len(found) == 1 else None


def pairs(summaries: Sequence[Summary]) -> list[Speedup]:
    """All ordered pairs that may be compared, in the summaries' order."""
    return [
        Speedup(fast, slow, factor)
        for fast in summaries
        for slow in summaries
        if fast is not slow and (factor := speedup(fast, slow)) is not None
    ]


def not_compared(summaries: Sequence[Summary], forced: bool) -> list[str]:
    """One sentence for each reason for which pairs of one workload were left out."""
    notes = []
    for summary in summaries:
        alone = why_not(summary, summary)
        if alone:
            contender = summary.contender
            name = contender.name_with_density
            notes.append(f"In no speed-up: {name} of {contender.setting['workload']} ({alone}).")
    return [*notes, *settings_apart(summaries, forced)]


def settings_apart(summaries: Sequence[Summary], forced: bool) -> list[str]:
    """One sentence for each two settings of one workload, saying in what they differ.

    Args:
        forced: the report has the table of ratios across settings already.
    """
    notes = []
    hint = "" if forced else "; `bench report --force` adds a table that does"
    settings = list(dict.fromkeys(summary.contender.setting for summary in summaries))
    for i, first in enumerate(settings):
        for second in settings[i + 1 :]:
            if first["workload"] != second["workload"]:
                continue
            differing = [
                f"{column} ({named_value(first.values[k])} and {named_value(second.values[k])})"
                for k, column in enumerate(COMPARABLE)
                if first.values[k] != second.values[k]
            ]
            notes.append(
                f"Runs of {first['workload']} that differ in {', '.join(differing)} "
                f"are not compared with each other{hint}."
            )
    return notes


def named_value(value: Any) -> str:
    """A setting's value for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else str(value)
