"""Estimates with 95 % intervals. Units are the caller's; nothing here knows a record.

Step times vary twice: from one fresh process to the next (address layout, threads, allocator) and
from step to step within a process. So the bootstrap resamples launches first and contiguous
blocks of steps within each (neighbouring steps are alike) second.

Few launches are the rule here, and a plain percentile bootstrap of three launches covers far less
than the 95 % it promises. The interval is therefore estimate / exp(+-t * se): the standard error
of the logarithm from the bootstrap, with the finite-sample factor sqrt(R / (R - 1)), and
Student's t with R - 1 degrees of freedom for R launches.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95
RESAMPLES = 2000
SEED = 20261
MEDIAN_ELEMENTS = 20_000_000
"""Step times that all resamples of one median may draw: bounds its time for long runs."""
FEWEST_BLOCKS = 3
"""A single process of fewer blocks than this has no interval."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval (None: too little data) and what it rests on.

    `se` and `dof` are those of the logarithm where `log_scale`, else of the value itself. Of
    contenders timed side by side, `runs` counts launches and `steps` counts rounds.
    """

    value: float
    low: float | None = None
    high: float | None = None
    runs: int = 1
    steps: int = 0
    se: float | None = None
    dof: float = math.inf
    log_scale: bool = True


@dataclass(frozen=True)
class Launch:
    """Timed steps of one process in order: times of shape (n,), kinds of shape (n,)."""

    times: Floats
    kinds: NDArray[np.int8]


Weights = Callable[[Mapping[int, int]], Mapping[int, float] | None]
"""From the number of steps of each kind to the weight of each kind's mean (None: undefined)."""


def all_steps(counts: Mapping[int, int]) -> Mapping[int, float]:
    """The mean over the executed schedule: each kind as often as it happened."""
    total = sum(counts.values())
    return {kind: count / total for kind, count in counts.items()}


def only(kind: int) -> Weights:
    """The mean over steps of one kind."""
    return lambda counts: {kind: 1.0} if counts.get(kind) else None


def weighted_mean(
    launches: Sequence[Launch], weights: Weights = all_steps, log_scale: bool = True
) -> Estimate | None:
    """Weighted sum of the means of each kind of step, averaged over launches.

    Blocks are drawn within each kind: how many updates there are is the schedule's, not
    chance. None if no launch has the kinds that the weights ask for.
    """
    rng = np.random.default_rng(SEED)
    values, pools, steps, blocks = [], [], 0, 0
    for launch in launches:
        strata = _strata(launch)
        chosen = weights({kind: len(times) for kind, times in strata.items()})
        if not chosen:
            continue
        values.append(sum(w * strata[kind].mean() for kind, w in chosen.items()))
        pools.append(sum(w * _block_means(strata[kind], rng) for kind, w in chosen.items()))
        steps += sum(len(strata[kind]) for kind in chosen)
        blocks += sum(_blocks(len(strata[kind]))[0] for kind in chosen)
    if not values:
        return None
    launches_drawn = rng.integers(len(pools), size=(RESAMPLES, len(pools)))
    draws = rng.integers(RESAMPLES, size=launches_drawn.shape)
    resampled = np.asarray(pools)[launches_drawn, draws].mean(axis=1)
    return _estimate(float(np.mean(values)), resampled, len(values), blocks, steps, log_scale)


def median(launches: Sequence[Launch]) -> Estimate | None:
    """Median over the steps of all launches; None without steps.

    Launches of unequal length count equally in the interval.
    """
    times = [launch.times for launch in launches if len(launch.times)]
    if not times:
        return None
    lengths = np.array([len(t) for t in times])
    padded = np.zeros((len(times), lengths.max()))
    for row, t in zip(padded, times, strict=True):
        row[: len(t)] = t
    resamples = int(np.clip(MEDIAN_ELEMENTS // padded.size, 100, RESAMPLES))
    rng = np.random.default_rng(SEED)
    chunk = max(1, 1_000_000 // padded.size)
    resampled = np.concatenate(
        [
            np.median(_resample(padded, lengths, min(chunk, resamples - done), rng), axis=1)
            for done in range(0, resamples, chunk)
        ]
    )
    blocks = sum(_blocks(int(n))[0] for n in lengths)
    value = float(np.median(np.concatenate(times)))
    return _estimate(value, resampled, len(times), blocks, int(lengths.sum()), log_scale=True)


def ratio(numerator: Estimate, denominator: Estimate) -> Estimate:
    """numerator / denominator of two independent estimates, both on the log scale.

    Degrees of freedom by Welch and Satterthwaite. `runs` is that of the side with fewer.
    """
    value = numerator.value / denominator.value
    fewest = min(numerator, denominator, key=lambda side: side.runs)
    runs, steps = fewest.runs, fewest.steps
    if numerator.se is None or denominator.se is None:
        return Estimate(value, runs=runs, steps=steps)
    squares = [(side.se or 0.0) ** 2 for side in (numerator, denominator)]
    parts = sum(
        square**2 / side.dof for square, side in zip(squares, (numerator, denominator), strict=True)
    )
    dof = sum(squares) ** 2 / parts if parts else math.inf
    return student_interval(value, math.sqrt(sum(squares)), dof, True, runs, steps)


def student_mean(values: Sequence[float]) -> Estimate | None:
    """Mean of independent values with Student's t interval; no interval for a single one."""
    data = np.asarray(values, dtype=float)
    if not len(data):
        return None
    if len(data) == 1:
        return Estimate(float(data[0]), log_scale=False)
    # Differences of percentages that are equal differ in their last digits: no spread all the same.
    equal = float(np.ptp(data)) <= 1e-9 * float(np.abs(data).max())
    se = 0.0 if equal else float(data.std(ddof=1)) / math.sqrt(len(data))
    return student_interval(float(data.mean()), se, len(data) - 1, False, runs=len(data), steps=0)


# ------------------------------------------------------------------- resampling


def _strata(launch: Launch) -> dict[int, Floats]:
    return {int(kind): launch.times[launch.kinds == kind] for kind in np.unique(launch.kinds)}


def _blocks(n: int) -> tuple[int, int]:
    """Number and length of the blocks that resample n steps; sqrt(n) steps are a block."""
    length = max(1, math.isqrt(n))
    return -(-n // length), length


def _block_means(times: Floats, rng: np.random.Generator) -> Floats:
    """Means of RESAMPLES circular block resamples, shape (RESAMPLES,)."""
    count, length = _blocks(len(times))
    # Every circular block's mean from one cumulative sum: no resample is ever built.
    sums = np.cumsum(np.concatenate([[0.0], times, times[: length - 1]]))
    means = (sums[length:] - sums[:-length]) / length
    return means[rng.integers(len(means), size=(RESAMPLES, count))].mean(axis=1)


def _resample(padded: Floats, lengths: NDArray, count: int, rng: np.random.Generator) -> Floats:
    """`count` hierarchical resamples of launches padded to one length; a row is one resample."""
    launches, longest = padded.shape
    blocks, length = _blocks(longest)
    launch = rng.integers(launches, size=(count, launches, 1, 1))
    starts = rng.random((count, launches, blocks, 1))
    n = lengths[launch]
    steps = ((starts * n).astype(np.int64) + np.arange(length)) % n
    times = padded[launch, steps].reshape(count, launches, -1)
    return times[:, :, :longest].reshape(count, -1)


def _estimate(
    value: float, resampled: Floats, runs: int, blocks: int, steps: int, log_scale: bool
) -> Estimate:
    """From bootstrap replicates to an estimate, corrected for few launches (or few blocks)."""
    units = runs if runs > 1 else blocks
    positive = value > 0 and bool((resampled > 0).all())
    if units < 2 or (runs == 1 and blocks < FEWEST_BLOCKS) or (log_scale and not positive):
        return Estimate(value, runs=runs, steps=steps, log_scale=log_scale)
    spread = float(np.std(np.log(resampled) if log_scale else resampled))
    se = spread * math.sqrt(units / (units - 1))
    return student_interval(value, se, units - 1, log_scale, runs=runs, steps=steps)


def student_interval(
    value: float, se: float, dof: float, log_scale: bool, runs: int, steps: int
) -> Estimate:
    """The value with Student's t interval, on the scale of its standard error."""
    reach = student_reach(se, dof)
    if log_scale:
        low, high = value * math.exp(-reach), value * math.exp(reach)
    else:
        low, high = value - reach, value + reach
    return Estimate(value, low, high, runs, steps, se, dof, log_scale)


def student_reach(se: float, dof: float, confidence: float = CONFIDENCE) -> float:
    """Half the width of a two-sided interval."""
    return float(stdtrit(dof, (1 + confidence) / 2)) * se if se else 0.0
