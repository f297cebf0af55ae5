"""Estimates over launches and rounds, paired by round. Knows numbers alone, no record.

Contenders that are timed in the same round share what the machine did then, so a ratio is formed
within each round and averaged over the rounds of a launch, then over launches. A launch (fresh
processes) is the outer unit of chance, a round the inner one.

The interval is that of `reports.statistics`: standard error of the hierarchical bootstrap
(launches, then rounds within each) times sqrt(R / (R - 1)) for R launches, Student's t with R - 1
degrees of freedom. For a mean of means that standard error has a closed form, which is used here:
equal records give equal intervals, and a stop rule or ten thousand replays cost no resampling.
It counts the variance between rounds twice (launch means vary by it too), so where launches hardly
differ the interval covers more than it promises, never less.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.statistics import FEWEST_BLOCKS, Estimate, Floats, student_interval

NOISE_QUANTILE = 0.95

Cells = Mapping[tuple[Any, int], float]
"""(launch, round) -> one contender's value in that round, e.g. its schedule-weighted mean step."""
Launches = Sequence[Floats]
"""One array per launch: a value of every round, shape (rounds of that launch,)."""


def log_ratios(mine: Cells, theirs: Cells) -> Launches:
    """Logarithm of mine / theirs in every round that both have."""
    return by_launch({key: math.log(mine[key] / theirs[key]) for key in mine if key in theirs})


def differences(mine: Cells, theirs: Cells) -> Launches:
    """Mine minus theirs in every round that both have."""
    return by_launch({key: mine[key] - theirs[key] for key in mine if key in theirs})


def by_launch(cells: Cells) -> Launches:
    """The values of each launch, in the cells' order."""
    launches: dict[Any, list[float]] = defaultdict(list)
    for (launch, _), value in cells.items():
        launches[launch].append(value)
    return [np.asarray(values) for values in launches.values()]


def mean_ratio(logs: Launches) -> Estimate | None:
    """The ratio itself from its logarithms; None without any.

    A single launch gives an interval over its rounds, which leaves out all variation between
    launches (`runs` is 1); fewer than three rounds of one launch give none.
    """
    if not logs:
        return None
    centre, se, dof = _centre(logs)
    return _estimate(math.exp(centre), se, dof, True, logs)


def mean(values: Launches) -> Estimate | None:
    """Mean of positive values, such as times; the interval, by its logarithm, stays positive."""
    if not values:
        return None
    centre, se, dof = _centre(values)
    return _estimate(centre, None if se is None else se / centre, dof, True, values)


def mean_difference(values: Launches) -> Estimate | None:
    """Mean of values of either sign."""
    if not values:
        return None
    centre, se, dof = _centre(values)
    return _estimate(centre, se, dof, False, values)


def half_width(estimate: Estimate) -> float | None:
    """Half the 95 % interval as a fraction of the value; None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / (2 * abs(estimate.value))


def inverse(ratio: Estimate) -> Estimate:
    """1 / ratio."""
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    kept = (ratio.runs, ratio.steps, ratio.se, ratio.dof)
    return Estimate(1 / ratio.value, low, high, *kept)


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """A difference in another unit (factor positive)."""
    low, high = (None if end is None else factor * end for end in (estimate.low, estimate.high))
    se = None if estimate.se is None else factor * estimate.se
    kept = (estimate.runs, estimate.steps, se, estimate.dof, estimate.log_scale)
    return Estimate(factor * estimate.value, low, high, *kept)


# ------------------------------------------------------------------------- A/A


@dataclass(frozen=True)
class NoiseFloor:
    """What one launch shows where there is nothing to show: the reference against itself."""

    log: float
    """Upper quantile of |log ratio| over launches."""
    launches: int

    @property
    def fraction(self) -> float:
        return math.expm1(self.log)


def noise_floor(again: Launches) -> NoiseFloor | None:
    """From the log ratios of the reference's two entries; None without any.

    The 95 % quantile over launches is the next greater value that was seen, so with 20 launches
    or fewer it is their maximum.
    """
    if not again:
        return None
    means = [abs(float(values.mean())) for values in again]
    return NoiseFloor(float(np.quantile(means, NOISE_QUANTILE, method="higher")), len(means))


# -------------------------------------------------------------------- estimates


def _centre(launches: Launches) -> tuple[float, float | None, float]:
    """Mean over launches of their means, its standard error (None: too little data) and degrees
    of freedom."""
    means = np.array([values.mean() for values in launches])
    # Bootstrap variances divide by n, not by n - 1: they are those of drawing from the data.
    within = np.array([values.var() / len(values) for values in launches])
    centre, units = float(means.mean()), len(launches)
    if units > 1:
        variance = (means.var() + within.mean()) / units
    else:
        variance, units = within[0], len(launches[0])
        if units < FEWEST_BLOCKS:
            return centre, None, math.inf
    return centre, math.sqrt(variance * units / (units - 1)), units - 1


def _estimate(
    value: float, se: float | None, dof: float, log_scale: bool, launches: Launches
) -> Estimate:
    rounds = sum(map(len, launches))
    if se is None:
        return Estimate(value, runs=len(launches), steps=rounds, log_scale=log_scale)
    return student_interval(value, se, dof, log_scale, len(launches), rounds)
