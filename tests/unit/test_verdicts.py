"""Verdicts: each by hand, and how often they are wrong in simulated studies."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest

from bench.reason_codes import NO_NOISE_FLOOR, TOO_FEW_LAUNCHES
from reports.paired import Cells, NoiseFloor, log_ratios, mean_ratio, noise_floor
from reports.statistics import Estimate, student_interval
from reports.verdicts import Judged, Verdict, judge

FLOOR = NoiseFloor(math.log(1.01), 5)
T_4 = 2.7764451  # 97.5 % quantile of Student's t with 4 degrees of freedom, from a table
T_4_HALF = 3.4954059  # 98.75 %: two intervals that share 5 %


def ratio(value: float, se: float, launches: int = 5) -> Estimate:
    return student_interval(value, se, launches - 1, True, launches, 3 * launches)


def alone(value: float, se: float, floor: NoiseFloor | None = FLOOR, launches: int = 5) -> Judged:
    return judge([ratio(value, se, launches)], floor)[0]


# ----------------------------------------------------------------------- by hand


@pytest.mark.parametrize(
    ("value", "se", "verdict"),
    [
        (0.5, 0.001, Verdict.FASTER),
        (2.0, 0.001, Verdict.SLOWER),
        (1.015, 0.0001, Verdict.SLOWER),  # within the margin, but beyond the noise floor
        (1.008, 0.002, Verdict.SAME),
        (0.992, 0.002, Verdict.SAME),
        (1.008, 0.005, Verdict.AMBIGUOUS),  # to 1.022: more than the margin
        (1.05, 0.02, Verdict.AMBIGUOUS),
        (1.02, 0.002, Verdict.SLOWER),
        (1.014, 0.002, Verdict.SAME),  # not 1, but known to be nearer than the margin
        (1.016, 0.0025, Verdict.AMBIGUOUS),  # neither beyond the floor nor within the margin
    ],
)
def test_one_pair(value: float, se: float, verdict: Verdict) -> None:
    assert alone(value, se).verdict is verdict
    assert alone(1 / value, se).verdict is verdict.inverse


def test_a_high_noise_floor_hides_what_is_below_it() -> None:
    loud = NoiseFloor(math.log(1.1), 5)
    assert alone(1.05, 0.001, loud).verdict is Verdict.AMBIGUOUS, "neither seen nor the same"
    assert alone(1.01, 0.001, loud).verdict is Verdict.SAME
    assert alone(1.2, 0.001, loud).verdict is Verdict.SLOWER


def test_the_margin_can_be_stated() -> None:
    assert judge([ratio(1.03, 0.001)], FLOOR, margin=0.04)[0].verdict is Verdict.SLOWER
    assert judge([ratio(1.009, 0.0001)], FLOOR, margin=0.01)[0].verdict is Verdict.SAME
    assert judge([ratio(1.009, 0.001)], FLOOR, margin=0.001)[0].verdict is Verdict.AMBIGUOUS


def test_few_launches_have_no_verdict_and_no_part_in_the_family() -> None:
    few, enough = judge([ratio(0.5, 0.001, launches=4), ratio(0.5, 0.001)], FLOOR)
    assert few == Judged(few.ratio, None, None, None, Verdict.TOO_FEW, (TOO_FEW_LAUNCHES,))
    assert enough.verdict is Verdict.FASTER
    assert enough.low == pytest.approx(enough.ratio.low)
    assert alone(0.5, 0.001, launches=1).verdict is Verdict.TOO_FEW
    assert judge([Estimate(2.0, runs=5)], FLOOR)[0].verdict is Verdict.TOO_FEW


def test_without_a_noise_floor_nothing_is_told_apart() -> None:
    judged = alone(0.5, 0.001, floor=None)
    assert judged.verdict is Verdict.AMBIGUOUS
    assert judged.codes == (NO_NOISE_FLOOR,)
    assert judged.visible is None


def test_intervals_are_simultaneous() -> None:
    one = judge([ratio(1.05, 0.01)], FLOOR)[0]
    of_two = judge([ratio(1.05, 0.01), ratio(1.2, 0.01)], FLOOR)[0]
    assert one.high == pytest.approx(1.05 * math.exp(T_4 * 0.01))
    assert of_two.high == pytest.approx(1.05 * math.exp(T_4_HALF * 0.01))
    assert (one.widening, of_two.widening) == pytest.approx((1.0, T_4_HALF / T_4))
    assert of_two.ratio.high == pytest.approx(1.05 * math.exp(T_4 * 0.01))  # stays its own


def test_exactly_known_ratios_need_no_width() -> None:
    assert alone(1.0, 0.0).verdict is Verdict.SAME
    assert alone(1.02, 0.0).verdict is Verdict.SLOWER


def test_the_smallest_visible_effect_is_found_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    se, launches, count = 0.01, 5, 2000
    known = alone(1.0, se)
    assert known.visible is not None
    logs = math.log1p(known.visible) + se * math.sqrt(launches) * rng.standard_normal(
        (count, launches, 1)
    )
    found = 0
    for study in logs:
        e = mean_ratio(list(study))
        assert e is not None
        found += judge([e], FLOOR)[0].verdict is Verdict.SLOWER
    assert binomtest(found, count, 0.95).pvalue > 0.01


# -------------------------------------------------------------------- simulation


def study(
    rng: np.random.Generator,
    effects: tuple[float, ...],
    launches: int,
    launch_sd: float,
    round_sd: float,
) -> list[Cells]:
    """The contenders, the first one twice (last): drift of 20 % that all share, and own noise."""
    times = np.array([*effects, effects[0]])
    shape = (launches, 3, len(times))
    own = launch_sd * rng.standard_normal((launches, 1, len(times)))
    ms = times * np.exp(own + round_sd * rng.standard_normal(shape))
    ms *= 1 + 0.2 * rng.random((launches, 3, 1))
    return [
        {(i, j): ms[i, j, c] for i in range(launches) for j in range(3)} for c in range(len(times))
    ]


def verdicts(participants: list[Cells]) -> dict[tuple[int, int], Verdict]:
    *contenders, again = participants
    pairs = list(combinations(range(len(contenders)), 2))
    ratios = [mean_ratio(log_ratios(contenders[a], contenders[b])) for a, b in pairs]
    floor = noise_floor(log_ratios(contenders[0], again))
    judged = judge([e for e in ratios if e], floor)
    return {pair: one.verdict for pair, one in zip(pairs, judged, strict=True)}


@pytest.mark.parametrize("noise", [(0.01, 0.002), (0.01, 0.01), (0.0, 0.01)])
@pytest.mark.parametrize("launches", [5, 10])
def test_false_verdicts_are_rarer_than_five_studies_in_a_hundred(
    noise: tuple[float, float], launches: int
) -> None:
    """All contenders alike: any faster or slower, among 6 pairs, makes the study wrong."""
    rng, count = np.random.default_rng(7), 300
    wrong = 0
    for _ in range(count):
        found = verdicts(study(rng, (10.0,) * 4, launches, *noise)).values()
        wrong += Verdict.FASTER in found or Verdict.SLOWER in found
    assert binomtest(wrong, count, 0.05, alternative="less").pvalue < 0.01


def test_same_is_not_said_of_what_differs_by_more_than_the_margin() -> None:
    rng, count = np.random.default_rng(8), 300
    wrong = 0
    for _ in range(count):
        # 2.5 % and a noise floor of mostly less than the margin.
        found = verdicts(study(rng, (10.0, 10.25), 5, 0.004, 0.002))
        wrong += found[0, 1] in (Verdict.SAME, Verdict.SLOWER)
    assert binomtest(wrong, count, 0.05, alternative="less").pvalue < 0.05


@pytest.mark.parametrize("noise", [(0.01, 0.002), (0.01, 0.01), (0.0, 0.01)])
def test_effects_of_three_times_the_noise_are_found(noise: tuple[float, float]) -> None:
    rng, count = np.random.default_rng(9), 150
    floors = [
        noise_floor(log_ratios(reference, again))
        for reference, again in (study(rng, (10.0,), 10, *noise) for _ in range(101))
    ]
    slower = 10 * math.exp(3 * float(np.median([floor.log for floor in floors if floor])))
    found = sum(
        verdicts(study(rng, (10.0, slower, 10.0), 10, *noise))[0, 1] is Verdict.FASTER
        for _ in range(count)
    )
    assert found >= 0.95 * count
