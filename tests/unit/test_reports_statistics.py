"""Estimates against hand computation, and their intervals against simulated truth."""

import math

import numpy as np
import pytest

from reports.statistics import (
    RESAMPLES,
    Estimate,
    Launch,
    median,
    only,
    ratio,
    student_mean,
    weighted_mean,
)

T_1, T_2 = 12.7062047, 4.3026527  # 97.5 % quantiles of Student's t, from a table


def launch(*times: float, kinds: list[int] | None = None) -> Launch:
    return Launch(np.array(times, float), np.array(kinds or [0] * len(times), np.int8))


def interval(e: Estimate | None) -> tuple[float, float]:
    assert e is not None
    assert e.low is not None
    assert e.high is not None
    return e.low, e.high


def width(e: Estimate | None) -> float:
    low, high = interval(e)
    return high - low


def simulated(rng: np.random.Generator, runs: int, steps: int, launch_sd: float) -> list[Launch]:
    """Steps of mean 10 and standard deviation 0.3, launches of standard deviation launch_sd."""
    means = 10 + launch_sd * rng.standard_normal(runs)
    return [launch(*(mean + 0.3 * rng.standard_normal(steps))) for mean in means]


# ---------------------------------------------------------------------- point values


def test_the_mean_is_over_all_steps_and_counts_them() -> None:
    e = weighted_mean([launch(1, 3), launch(5, 7)])
    assert e is not None
    assert (e.value, e.runs, e.steps) == (4.0, 2, 4)


def test_the_median_is_over_all_steps() -> None:
    e = median([launch(1, 2, 9), launch(3, 4, 100)])
    assert e is not None
    assert (e.value, e.runs, e.steps) == (3.5, 2, 6)


def test_update_steps_weigh_as_often_as_they_happen() -> None:
    e = weighted_mean([launch(10, 10, 10, 50, kinds=[0, 0, 0, 3])])
    assert e is not None
    assert e.value == 20.0


def test_one_kind_alone_ignores_the_others_and_launches_without_it() -> None:
    launches = [launch(10, 10, 50, kinds=[0, 0, 3]), launch(11, 11, 11)]
    e = weighted_mean(launches, only(3))
    assert e is not None
    assert (e.value, e.runs, e.steps) == (50.0, 1, 1)
    assert weighted_mean(launches, only(2)) is None


def test_nothing_comes_of_nothing() -> None:
    assert weighted_mean([]) is None
    assert median([]) is None
    assert median([launch()]) is None
    assert student_mean([]) is None


# ------------------------------------------------------------------------- intervals


def test_constant_series_have_intervals_of_no_width() -> None:
    launches = [launch(*[10.0] * 30), launch(*[10.0] * 30)]
    assert interval(weighted_mean(launches)) == pytest.approx((10, 10), rel=1e-9)
    assert interval(median(launches)) == pytest.approx((10, 10), rel=1e-9)


def test_the_schedules_number_of_updates_is_not_chance() -> None:
    kinds = [0] * 36 + [3] * 4
    e = weighted_mean([launch(*[10.0] * 36, *[50.0] * 4, kinds=kinds)])
    assert interval(e) == pytest.approx((14.0, 14.0))


def test_two_launches_get_students_t_for_one_degree_of_freedom() -> None:
    low, high = interval(weighted_mean([launch(*[9.9] * 40), launch(*[10.1] * 40)]))
    # Half the difference is the standard error of a mean of two; 0.1 / 10 on the log scale.
    assert math.log(high / 10) == pytest.approx(T_1 * 0.01, rel=0.06)
    assert math.log(low / 10) == pytest.approx(-T_1 * 0.01, rel=0.06)


def test_three_launches_get_students_t_for_two_degrees_of_freedom() -> None:
    low, high = interval(weighted_mean([launch(*[x] * 40) for x in (9.9, 10.0, 10.1)]))
    assert math.log(high / low) / 2 == pytest.approx(T_2 * 0.01 / math.sqrt(3), rel=0.06)


def test_a_launch_effect_widens_the_interval_beyond_the_naive_one() -> None:
    launches = simulated(np.random.default_rng(1), 5, 400, launch_sd=0.2)
    pooled = launch(*np.concatenate([one.times for one in launches]))
    rng = np.random.default_rng(2)
    shuffled = launch(*rng.permutation(pooled.times))  # steps as if they were independent
    for estimate in (weighted_mean, median):
        assert width(estimate(launches)) > 5 * width(estimate([shuffled]))


def test_the_interval_covers_the_truth_where_the_naive_one_does_not() -> None:
    rng = np.random.default_rng(3)
    trials, hits, naive_hits = 80, 0, 0
    for _ in range(trials):
        launches = simulated(rng, 3, 200, launch_sd=0.1)
        low, high = interval(weighted_mean(launches))
        hits += low <= 10 <= high
        times = np.concatenate([one.times for one in launches])
        naive_hits += abs(times.mean() - 10) <= 1.96 * times.std() / math.sqrt(len(times))
    assert hits >= 0.88 * trials  # 95 % less three standard errors
    assert naive_hits <= 0.6 * trials


def test_one_process_covers_its_own_steps() -> None:
    rng = np.random.default_rng(4)
    trials = 80
    hits = 0
    for _ in range(trials):
        low, high = interval(weighted_mean(simulated(rng, 1, 200, launch_sd=0.0)))
        hits += low <= 10 <= high
    assert 0.85 * trials <= hits
    assert hits < trials  # an interval that never misses is too wide


def test_blocks_keep_what_neighbouring_steps_share() -> None:
    rng = np.random.default_rng(5)
    slow = np.repeat(rng.standard_normal(20), 20)  # 20 episodes of 20 steps
    times = 10 + slow + 0.1 * rng.standard_normal(400)
    shuffled = rng.permutation(times)
    for estimate in (weighted_mean, median):
        assert width(estimate([launch(*times)])) > 2.5 * width(estimate([launch(*shuffled)]))


def test_too_few_steps_of_one_process_have_no_interval() -> None:
    for times in ((10.0,), (10.0, 11.0)):
        e = weighted_mean([launch(*times)])
        assert e is not None
        assert (e.low, e.high) == (None, None)
    assert width(weighted_mean([launch(10.0, 11.0, 12.0)])) > 0


def test_equal_records_give_equal_intervals() -> None:
    launches = simulated(np.random.default_rng(6), 3, 50, launch_sd=0.1)
    assert weighted_mean(launches) == weighted_mean(launches)
    assert median(launches) == median(launches)


def test_launches_of_unequal_length_are_all_in_the_median() -> None:
    e = median([launch(*[10.0] * 50), launch(*[12.0] * 40)])
    low, high = interval(e)
    assert e is not None
    assert (e.value, e.runs, e.steps) == (10.0, 2, 90)
    assert low < 10 < high


def test_a_difference_may_be_negative() -> None:
    def less(counts):
        return {3: 1.0, 0: -1.0} if counts.get(3) else None

    times = [*np.linspace(19.9, 20.1, 30), *np.linspace(9.9, 10.1, 30)]
    e = weighted_mean([launch(*times, kinds=[0] * 30 + [3] * 30)], less, log_scale=False)
    low, high = interval(e)
    assert e is not None
    assert e.value == pytest.approx(-10)
    assert -10.2 < low < -10 < high < -9.8


# ---------------------------------------------------------------------------- ratios


def test_the_ratio_of_two_constant_series_is_exact() -> None:
    slow, fast = weighted_mean([launch(*[20.0] * 30)]), weighted_mean([launch(*[8.0] * 30)])
    assert slow is not None
    assert fast is not None
    e = ratio(numerator=slow, denominator=fast)
    assert e.value == 2.5
    assert interval(e) == pytest.approx((2.5, 2.5), rel=1e-9)
    assert ratio(numerator=fast, denominator=slow).value == 0.4


def test_the_inverse_ratio_has_the_inverse_interval() -> None:
    rng = np.random.default_rng(7)
    a = weighted_mean(simulated(rng, 3, 60, launch_sd=0.3))
    b = weighted_mean([launch(*(2 * one.times)) for one in simulated(rng, 2, 60, 0.1)])
    assert a is not None
    assert b is not None
    forth, back = ratio(b, a), ratio(a, b)
    assert forth.value == pytest.approx(2, rel=0.1)
    assert back.low == pytest.approx(1 / interval(forth)[1])
    assert back.high == pytest.approx(1 / interval(forth)[0])
    assert forth.runs == 2


def test_ratios_add_errors_in_squares_with_welchs_degrees_of_freedom() -> None:
    a = Estimate(20.0, 19, 21, runs=3, steps=30, se=0.03, dof=2)
    b = Estimate(10.0, 9, 11, runs=3, steps=30, se=0.03, dof=2)
    e = ratio(a, b)
    assert e.dof == pytest.approx(4)  # equal errors: the degrees of freedom add
    assert e.se == pytest.approx(0.03 * math.sqrt(2))
    t_4 = 2.7764451
    assert e.high == pytest.approx(2 * math.exp(t_4 * 0.03 * math.sqrt(2)))
    exact = Estimate(10.0, 10, 10, runs=3, steps=30, se=0.0, dof=2)
    assert interval(ratio(a, exact))[0] == pytest.approx(2 * math.exp(-T_2 * 0.03))


def test_a_ratio_without_an_interval_on_one_side_has_none() -> None:
    a, b = Estimate(20.0, 19, 21, se=0.03, dof=2), Estimate(10.0)
    assert ratio(a, b) == Estimate(2.0, runs=1, steps=0)


# -------------------------------------------------------------------------- Student's t


def test_students_mean_by_hand() -> None:
    e = student_mean([1, 2, 3])
    assert e is not None
    assert (e.value, e.runs) == (2.0, 3)
    half = T_2 / math.sqrt(3)
    assert interval(e) == pytest.approx((2 - half, 2 + half))


def test_one_value_has_no_interval() -> None:
    e = student_mean([93.5])
    assert e is not None
    assert (e.value, e.low, e.high, e.runs) == (93.5, None, None, 1)


def test_there_are_enough_resamples_for_the_second_digit() -> None:
    assert RESAMPLES >= 2000
