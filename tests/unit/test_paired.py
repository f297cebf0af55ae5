"""Ratios paired by round: by hand, against resampling, and against simulated truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.paired import (
    by_launch,
    differences,
    half_width,
    inverse,
    log_ratios,
    mean,
    mean_difference,
    mean_ratio,
    noise_floor,
    scaled,
)
from reports.statistics import Estimate, Floats

T_1, T_2, T_4 = 12.7062047, 4.3026527, 2.7764451  # 97.5 % quantiles of Student's t, from a table


def cells(launches: list[list[float]]) -> dict[tuple[int, int], float]:
    return {(i, j): x for i, values in enumerate(launches) for j, x in enumerate(values)}


def ratio(mine: list[list[float]], theirs: list[list[float]]) -> Estimate:
    e = mean_ratio(log_ratios(cells(mine), cells(theirs)))
    assert e is not None
    return e


def interval(e: Estimate | None) -> tuple[float, float]:
    assert e is not None
    assert e.low is not None
    assert e.high is not None
    return e.low, e.high


def studies(
    rng: np.random.Generator, count: int, launches: int, launch_sd: float, round_sd: float
) -> Floats:
    """Log ratios around 0, shape (count, launches, 3)."""
    between = launch_sd * rng.standard_normal((count, launches, 1))
    return between + round_sd * rng.standard_normal((count, launches, 3))


def coverage(data: Floats) -> float:
    found = [interval(mean_ratio(list(study))) for study in data]
    return float(np.mean([low <= 1 <= high for low, high in found]))


# ----------------------------------------------------------------------- by hand


def test_a_ratio_is_the_geometric_mean_over_launches_of_those_over_rounds() -> None:
    e = ratio([[2, 8], [16, 16]], [[1, 1], [1, 1]])
    assert e.value == pytest.approx(8)  # 2 and 8 give 4; 4 and 16 give 8
    assert (e.runs, e.steps) == (2, 4)


def test_two_launches_without_variation_within_have_students_t() -> None:
    low, high = interval(ratio([[1.0, 1.0], [1.21, 1.21]], [[1.0, 1.0], [1.0, 1.0]]))
    # Half the difference of the logarithms is the standard error of a mean of two.
    assert math.log(high / 1.1) == pytest.approx(T_1 * math.log(1.21) / 2)
    assert low == pytest.approx(1.21 / high)


def test_the_standard_error_adds_rounds_to_launches() -> None:
    e = mean_difference([np.array([0.0, 2.0]), np.array([4.0, 6.0])])
    # Launch means 1 and 5: variance 4; within a launch 1, over 2 rounds; two launches, times 2 / 1.
    assert e is not None
    assert (e.value, e.dof) == (3.0, 1)
    assert e.se == pytest.approx(math.sqrt((4 + 0.5) / 2 * 2))
    assert interval(e) == pytest.approx((3 - T_1 * 4.5**0.5, 3 + T_1 * 4.5**0.5))


def test_one_launch_has_an_interval_over_its_rounds_and_says_that_it_is_one() -> None:
    e = mean_difference([np.array([1.0, 2.0, 3.0])])
    assert e is not None
    assert (e.runs, e.steps, e.dof) == (1, 3, 2)
    assert interval(e) == pytest.approx((2 - T_2 / 3**0.5, 2 + T_2 / 3**0.5))
    few = mean_difference([np.array([1.0, 2.0])])
    assert few is not None
    assert (few.value, few.low, few.se) == (1.5, None, None)


def test_a_mean_of_times_is_arithmetic_and_its_interval_positive() -> None:
    e = mean([np.array([1.0, 1.0, 1.0]), np.array([9.0, 9.0, 9.0])])
    assert e is not None
    assert e.value == 5
    assert interval(e)[0] > 0
    assert math.log(interval(e)[1] / 5) == pytest.approx(T_1 * 4 / 5)


def test_rounds_and_launches_that_one_side_lacks_are_left_out() -> None:
    mine = {(0, 0): 2.0, (0, 1): 4.0, (1, 0): 6.0, (2, 0): 9.0}
    theirs = {(0, 0): 1.0, (1, 0): 2.0, (1, 1): 5.0, (3, 0): 1.0}
    assert [list(x) for x in differences(mine, theirs)] == [[1.0], [4.0]]
    assert [list(x) for x in log_ratios(mine, theirs)] == [[math.log(2)], [math.log(3)]]
    assert mean_ratio(log_ratios(mine, {(7, 0): 1.0})) is None
    assert mean([]) is None
    assert mean_difference([]) is None


def test_inverse_scale_and_width() -> None:
    e = ratio([[1.9, 2.0], [2.1, 2.1]], [[1.0, 1.0], [1.0, 1.0]])
    back = inverse(e)
    assert back.value == pytest.approx(1 / e.value)
    assert interval(back) == pytest.approx((1 / interval(e)[1], 1 / interval(e)[0]))
    assert inverse(Estimate(4.0)) == Estimate(0.25)
    assert interval(scaled(Estimate(2.0, 1.0, 3.0, se=0.5), 10)) == (10, 30)
    assert half_width(Estimate(2.0, 1.9, 2.1)) == pytest.approx(0.05)
    assert half_width(Estimate(2.0)) is None


# ------------------------------------------------------------------------- noise


def test_the_noise_floor_of_few_launches_is_the_largest_difference() -> None:
    floor = noise_floor([np.array([0.01, 0.03]), np.array([-0.05]), np.array([0.0])])
    assert floor is not None
    assert (floor.log, floor.launches) == (0.05, 3)
    assert floor.fraction == pytest.approx(math.exp(0.05) - 1)
    assert noise_floor([]) is None


def test_the_noise_floor_of_many_launches_is_their_quantile() -> None:
    values = [np.array([x / 1000]) for x in range(1, 101)]
    floor = noise_floor(values)
    assert floor is not None
    assert floor.log == 0.096  # the next greater one that was seen
    floor = noise_floor(values[:20])
    assert floor is not None
    assert floor.log == 0.02


# ---------------------------------------------------------------------- properties


@given(st.integers(0, 1000), st.floats(0.0, 0.5))
def test_drift_that_all_contenders_share_leaves_ratios_exact(seed: int, drift: float) -> None:
    rng = np.random.default_rng(seed)
    slow = 1 + drift * rng.random((4, 3))
    e = ratio((3.0 * slow).tolist(), (2.0 * slow).tolist())
    assert e.value == pytest.approx(1.5)
    assert interval(e) == pytest.approx((1.5, 1.5), rel=1e-6)


def test_pairing_is_what_removes_it() -> None:
    slow = 1 + 0.2 * np.random.default_rng(1).random((5, 3))
    mine, theirs = (3.0 * slow).tolist(), (2.0 * slow).tolist()
    alone = mean(by_launch(cells(mine)))
    assert alone is not None
    assert (half_width(alone) or 0) > 0.02
    assert (half_width(ratio(mine, theirs)) or 0) < 1e-9


def test_the_closed_form_is_the_bootstrap_of_launches_then_rounds() -> None:
    rng = np.random.default_rng(2)
    launches = [0.3 * rng.standard_normal() + rng.standard_normal(n) for n in (3, 3, 2, 4, 3)]
    resampled = [
        np.mean([rng.choice(launches[i], len(launches[i])).mean() for i in rng.integers(5, size=5)])
        for _ in range(4000)
    ]
    e = mean_difference(launches)
    assert e is not None
    # Four standard errors of a standard deviation from 4,000 resamples.
    assert e.se == pytest.approx(np.std(resampled) * math.sqrt(5 / 4), rel=4 / math.sqrt(8000))


# ------------------------------------------------------------------------ coverage


@pytest.mark.parametrize(("launches", "most"), [(2, 0.995), (5, 0.975), (10, 0.975)])
def test_intervals_cover_the_truth_where_launches_differ(launches: int, most: float) -> None:
    rng = np.random.default_rng(3)
    found = coverage(studies(rng, 1000, launches, launch_sd=0.02, round_sd=0.004))
    # 95 % and three standard errors; more of two launches, which rounds keep from looking alike.
    assert 0.93 <= found <= most


@pytest.mark.parametrize("launches", [5, 10])
def test_intervals_cover_more_where_launches_are_alike(launches: int) -> None:
    rng = np.random.default_rng(4)
    assert coverage(studies(rng, 1000, launches, launch_sd=0.0, round_sd=0.02)) >= 0.97


def test_rounds_as_if_they_were_independent_cover_far_less() -> None:
    data = studies(np.random.default_rng(5), 500, 5, launch_sd=0.02, round_sd=0.004)
    pooled = data.reshape(len(data), 1, -1)
    assert coverage(data) > 0.93
    assert coverage(pooled) < 0.75


def test_stopping_at_a_width_leaves_the_coverage() -> None:
    """The stop rule looks again after every launch, and stops sooner where chance is kind."""
    data = studies(np.random.default_rng(6), 400, 30, launch_sd=0.014, round_sd=0.004)
    hits, used = 0, []
    for study in data:
        looks = [mean_ratio(list(study[:launches])) for launches in range(5, 31)]
        stop = next((e for e in looks if e and (half_width(e) or 1) <= 0.01), looks[-1])
        low, high = interval(stop)
        hits += low <= 1 <= high
        used.append(stop.runs if stop else 0)
    assert 5 < np.mean(used) < 15
    assert hits >= 0.92 * len(data)
