"""Which of two contenders is faster, as far as the measurement can tell.

All pairs of one setting are one family. Their intervals are simultaneous t intervals by
Bonferroni: with m pairs each has level 1 - 0.05 / m, so that with at least 95 % all of them hold,
however the pairs depend on each other (they share launches and contenders). Holm's steps would find
a little more, but give no intervals.

* faster, slower: the whole simultaneous interval lies beyond the noise floor on that side;
* same: all of it lies within the equivalence margin around 1, which noise does not widen;
* ambiguous: neither; or there is no A/A and so no noise floor;
* too few launches: fewer than five. A standard error then rests on so little that Student's t,
  right for normal launches only, is no protection. Such pairs are no part of the family.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy.special import nctdtrinc, stdtrit

from bench.reason_codes import FEWEST_LAUNCHES, NO_NOISE_FLOOR, TOO_FEW_LAUNCHES
from reports.paired import NoiseFloor
from reports.statistics import CONFIDENCE, Estimate, student_reach

EQUIVALENCE = 0.02
"""Ratios that are known to be nearer to 1 than this count as the same."""
POWER = 0.95


class Verdict(StrEnum):
    """Of the ratio mine / theirs of two times: faster says that mine is shorter."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    AMBIGUOUS = "ambiguous"
    TOO_FEW = "too few launches"

    @property
    def inverse(self) -> "Verdict":
        """Of theirs / mine."""
        return {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}.get(self, self)


@dataclass(frozen=True)
class Judged:
    """One pair."""

    ratio: Estimate
    """With its own 95 % interval."""
    low: float | None
    high: float | None
    """The simultaneous interval; None: no interval, or no part of the family."""
    visible: float | None
    """Smallest effect that could have been seen, as a fraction: one slower by this much would have
    been called slower with 95 % probability."""
    verdict: Verdict
    codes: tuple[str, ...] = ()
    """Why there is no verdict, where that is not the data's own width."""
    widening: float = 1.0
    """How much wider the simultaneous interval is than the pair's own, on the log scale."""


def judge(
    ratios: Sequence[Estimate], floor: NoiseFloor | None, margin: float = EQUIVALENCE
) -> list[Judged]:
    """Verdicts on all ratios of one setting, with family-wise control over them.

    Args:
        ratios: of times, from `paired.mean_ratio`; every unordered pair once.
        floor: from A/A; None where the reference had no second entry.
        margin: within which ratios count as the same, as a fraction.
    """
    return judge_each([(ratio, floor) for ratio in ratios], margin)


def judge_each(
    ratios: Sequence[tuple[Estimate, NoiseFloor | None]], margin: float = EQUIVALENCE
) -> list[Judged]:
    """As `judge`, of one family whose ratios have noise floors of their own (several settings)."""
    family = sum(_may_be_judged(ratio) for ratio, _ in ratios)
    return [_judge(ratio, floor, margin, family) for ratio, floor in ratios]


def together(family: int) -> float:
    """Confidence of each of so many intervals that all of them hold with CONFIDENCE."""
    return 1 - (1 - CONFIDENCE) / family


def _judge(ratio: Estimate, floor: NoiseFloor | None, margin: float, family: int) -> Judged:
    if not _may_be_judged(ratio):
        return Judged(ratio, None, None, None, Verdict.TOO_FEW, (TOO_FEW_LAUNCHES,))
    assert ratio.se is not None
    confidence = together(family)
    centre, reach = math.log(ratio.value), student_reach(ratio.se, ratio.dof, confidence)
    low, high = centre - reach, centre + reach
    visible, verdict, codes = None, Verdict.AMBIGUOUS, (NO_NOISE_FLOOR,)
    if floor is not None:
        visible = math.expm1(floor.log + _detectable(ratio.se, ratio.dof, confidence))
        verdict, codes = _verdict(low, high, floor.log, math.log1p(margin)), ()
    widening = student_reach(1.0, ratio.dof, confidence) / student_reach(1.0, ratio.dof)
    return Judged(ratio, math.exp(low), math.exp(high), visible, verdict, codes, widening)


def _verdict(low: float, high: float, floor: float, margin: float) -> Verdict:
    """From the interval of the log ratio."""
    if high < -floor:
        return Verdict.FASTER
    if low > floor:
        return Verdict.SLOWER
    return Verdict.SAME if -margin <= low and high <= margin else Verdict.AMBIGUOUS


def _may_be_judged(ratio: Estimate) -> bool:
    return ratio.runs >= FEWEST_LAUNCHES and ratio.se is not None


def _detectable(se: float, dof: float, confidence: float) -> float:
    """The true effect whose interval excludes 0 with probability POWER (noncentral t)."""
    critical = float(stdtrit(dof, (1 + confidence) / 2))
    return float(nctdtrinc(dof, 1 - POWER, critical)) * se
