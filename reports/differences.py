"""Paired differences of accuracies, judged together.

All pairs of one table are one family. Their intervals are simultaneous t intervals by Bonferroni,
as in `reports.verdicts`: with m pairs each has level 1 - 0.05 / m, and with at least 95 % all of
them hold, however the pairs depend on each other (they share seeds and the reference).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from reports.formats import points
from reports.statistics import CONFIDENCE, Estimate, student_reach
from reports.table import Column, Shown

WIDEST = 100.0
"""Points: no two accuracies differ by more."""


class Verdict(StrEnum):
    """Of mine minus theirs."""

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    ONE_SEED = "one seed"
    NO_SEED = "no common seed"


@dataclass(frozen=True)
class Judged:
    """One pair."""

    difference: Estimate | None
    """In points, with its own 95 % interval; None without a common seed."""
    together: Estimate | None
    """The same with the simultaneous interval; None where it is no part of the family."""
    verdict: Verdict


def judge(differences: Sequence[Estimate | None]) -> list[Judged]:
    """Verdicts on all pairs of one table. Differences are means over common seeds."""
    family = sum(_has_interval(difference) for difference in differences)
    return [_judge(difference, family) for difference in differences]


def _judge(difference: Estimate | None, family: int) -> Judged:
    if difference is None:
        return Judged(None, None, Verdict.NO_SEED)
    if difference.se is None:
        return Judged(difference, None, Verdict.ONE_SEED)
    confidence = 1 - (1 - CONFIDENCE) / family
    own, together = (within(difference, level) for level in (CONFIDENCE, confidence))
    return Judged(own, together, _verdict(together, difference.se))


def within(difference: Estimate, confidence: float) -> Estimate:
    """With an interval of that level, cut off where no difference of accuracies can be."""
    reach = student_reach(difference.se or 0.0, difference.dof, confidence)
    low, high = difference.value - reach, difference.value + reach
    return replace(difference, low=max(low, -WIDEST), high=min(high, WIDEST))


def _verdict(together: Estimate, se: float) -> Verdict:
    assert together.low is not None
    assert together.high is not None
    # Equal differences of a few seeds come from counting few images, not from certainty.
    if se == 0 or together.low <= 0 <= together.high:
        return Verdict.UNDECIDED
    return Verdict.HIGHER if together.low > 0 else Verdict.LOWER


def _has_interval(difference: Estimate | None) -> bool:
    return difference is not None and difference.se is not None


# --------------------------------------------------------------------------- in tables


def columns(title: str) -> tuple[Column, Column, Column]:
    """The difference, its simultaneous interval and the verdict."""
    return (
        Column("difference_points", f"{title}, points [95%]", points, interval=True),
        Column("together_points", "all pairs together [95%]", _ends, interval=True),
        Column("verdict", "verdict", text=True),
    )


def cells(judged: Judged) -> dict[str, Any]:
    return {
        "difference_points": judged.difference,
        "together_points": judged.together,
        "verdict": str(judged.verdict),
    }


REFERENCE = {"difference_points": Shown("reference", 0.0), "verdict": "reference"}


def family_note(judged: Sequence[Judged]) -> str:
    """What the verdicts of a table mean, and of how many pairs they are."""
    family = sum(one.together is not None for one in judged)
    if not family:
        return (
            "No pair has two common seeds: no difference has an interval, and none is established."
        )
    pairs = "the one pair" if family == 1 else f"one family of {family} pairs"
    return (
        f"Differences are paired by seed; interval: 95 %, Student's t over seeds. Verdicts are of "
        f"{pairs}: simultaneous t intervals (Bonferroni, 95 % for all of them together). Higher or "
        "lower: the whole simultaneous interval is on that side of zero; undecided: it covers "
        "zero, or all seeds differ by the same, which says nothing of their spread; one seed: no "
        "interval."
    )


def _ends(estimate: Estimate) -> str:
    assert estimate.low is not None
    assert estimate.high is not None
    return f"[{estimate.low:+.2f}, {estimate.high:+.2f}]"
