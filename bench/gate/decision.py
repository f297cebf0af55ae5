"""From two measurements to a verdict. Pure.

A contender is slower if the whole interval of its slow-down lies beyond the threshold. A 90 %
interval errs to that side once in 20 measurements where the truth lies at the threshold, and hardly
ever where nothing has changed; a gate fails only if a second measurement of the same contender errs
likewise. The noise floor says whether the machine could have shown it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import expm1, log1p, sqrt

import numpy as np
from scipy.special import stdtrit

from bench.gate.measurement import Measurement

CONFIDENCE = 0.90


class Verdict(Enum):
    FINE = "fine"
    SLOWER = "slower"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Change:
    """Slow-down of one contender against its baseline, as fractions (0.03 is 3 % slower)."""

    label: str
    slowdown: float
    low: float
    high: float
    launches: int
    baseline_launches: int
    verdict: Verdict


@dataclass(frozen=True)
class CountChange:
    """A count that should be the same and is not."""

    label: str
    segment: str
    count: str
    before: int | None
    now: int | None

    @property
    def is_worse(self) -> bool:
        return self.before is None or self.now is None or self.now > self.before


def changes(now: Measurement, before: Measurement, max_slowdown: float) -> list[Change]:
    """Of every contender that both have, with at least two launches each."""
    labels = [label for label in before.contenders if label in now.contenders]
    found = []
    for label in labels:
        mine, theirs = now.contenders[label].log_ratios, before.contenders[label].log_ratios
        if min(len(mine), len(theirs)) < 2:
            continue
        low, middle, high = _interval(mine, theirs)
        if low > log1p(max_slowdown):
            verdict = Verdict.SLOWER
        elif high - middle > log1p(max_slowdown):
            verdict = Verdict.UNDECIDED
        else:
            verdict = Verdict.FINE
        bounds = (expm1(middle), expm1(low), expm1(high))
        found.append(Change(label, *bounds, len(mine), len(theirs), verdict))
    return found


def noise_floor(now: Measurement) -> float:
    """Half the width of the interval of the frozen loop over itself, plus how far its middle
    is from 1: what the machine shows where there is nothing to show."""
    if len(now.again) < 2:
        return float("inf")
    reach = _quantile(len(now.again) - 1) * float(np.std(now.again, ddof=1)) / sqrt(len(now.again))
    return expm1(reach + abs(float(np.mean(now.again))))


def count_changes(now: Measurement, before: Measurement) -> list[CountChange]:
    """Every count that differs, in contenders that both have."""
    found = []
    for label in before.contenders:
        if label not in now.contenders:
            continue
        mine, theirs = now.contenders[label], before.contenders[label]
        for segment in dict.fromkeys([*theirs.counts, *mine.counts]):
            old, new = theirs.counts.get(segment, {}), mine.counts.get(segment, {})
            for name in dict.fromkeys([*old, *new]):
                if old.get(name) != new.get(name):
                    found.append(CountChange(label, segment, name, old.get(name), new.get(name)))
        if mine.stored_parameters != theirs.stored_parameters:
            sizes = (theirs.stored_parameters, mine.stored_parameters)
            found.append(CountChange(label, "model", "stored_parameters", *sizes))
    return found


def _interval(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Difference of means of logarithms with its interval (Welch)."""
    squares = [np.var(side, ddof=1) / len(side) for side in (mine, theirs)]
    middle = float(np.mean(mine) - np.mean(theirs))
    total = float(sum(squares))
    if total == 0:
        return middle, middle, middle
    parts = sum(s**2 / (len(side) - 1) for s, side in zip(squares, (mine, theirs), strict=True))
    dof = total**2 / float(parts)
    reach = _quantile(dof) * sqrt(total)
    return middle - reach, middle, middle + reach


def _quantile(dof: float) -> float:
    return float(stdtrit(dof, (1 + CONFIDENCE) / 2))
