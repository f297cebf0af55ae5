"""Times of two studies: by hand, by property, and how often equals are called different."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bench.reason_codes import NO_NOISE_FLOOR
from reports.verdicts import Verdict
from tests.unit.compare_fixture import Launches, by_method, compared, timed, trained

T_2 = 4.3026527  # 97.5 % quantile of Student's t with 2 degrees of freedom, from a table
LAUNCHES, ROUNDS = 5, 3


def flat(ms: float) -> Launches:
    return [[ms] * ROUNDS] * LAUNCHES


def test_runs_are_the_units_of_trained_studies() -> None:
    before = trained({"dense": [10, 10], "static": [4.0, 4.4]})
    after = trained({"dense": [20, 20], "static": [10, 11]})
    static = by_method(compared(before, after))["static"]
    # Half the standard deviation of two logarithms, on both sides; Welch: 2 degrees of freedom.
    reach = T_2 * math.log(1.1) / math.sqrt(2)
    assert static.to_reference is not None
    found = (static.to_reference.value, static.to_reference.low, static.to_reference.high)
    assert found == pytest.approx((1.25, 1.25 * math.exp(-reach), 1.25 * math.exp(reach)))
    assert static.measured is not None
    assert static.measured.value == pytest.approx(10.5 / 4.2)
    assert static.judged is not None
    assert static.judged.ratio is static.to_reference
    assert static.judged.verdict is Verdict.TOO_FEW


def test_the_speed_of_the_sitting_is_no_difference() -> None:
    before = timed({"dense": flat(10), "static": flat(5)}, again=flat(10.05))
    after = timed({"dense": flat(13), "static": flat(6.5)}, again=flat(13.0))
    changes = by_method(compared(before, after))
    assert changes["static"].judged is not None
    assert changes["static"].judged.verdict is Verdict.SAME
    assert changes["static"].measured is not None
    assert changes["static"].measured.value == pytest.approx(1.3)
    assert changes["dense"].is_reference
    assert changes["dense"].judged is None
    floor = changes["static"].floor
    assert floor is not None
    assert floor.fraction == pytest.approx(0.005), "the larger one of both studies'"


def test_without_a_common_reference_times_are_judged_as_measured() -> None:
    before = timed({"dense": flat(10), "static": flat(5)}, again=flat(10))
    after = timed({"static": flat(6)})
    static = by_method(compared(before, after))["static"]
    assert static.to_reference is None
    assert static.judged is not None
    assert static.judged.ratio.value == pytest.approx(1.2)
    assert static.judged.verdict is Verdict.AMBIGUOUS, "one study has no A/A"
    assert static.judged.codes == (NO_NOISE_FLOOR,)


def test_a_lone_reference_is_judged_itself() -> None:
    before, after = (timed({"dense": flat(ms)}, again=flat(ms)) for ms in (10, 12))
    dense = by_method(compared(before, after))["dense"]
    assert not dense.is_reference
    assert dense.judged is not None
    assert dense.judged.verdict is Verdict.SLOWER


def test_one_run_has_no_interval_and_no_verdict() -> None:
    before, after = trained({"static": [5]}), trained({"static": [9]})
    static = by_method(compared(before, after))["static"]
    assert static.measured is not None
    assert (static.measured.value, static.measured.low) == (1.8, None)
    assert static.judged is not None
    assert static.judged.verdict is Verdict.TOO_FEW


def test_trained_studies_have_the_noise_floor_of_their_reference() -> None:
    before = trained({"dense": [10.0] * 5, "static": [5.0] * 5})
    after = trained({"dense": [20.0, 20.0, 20.0, 20.0, 22.0], "static": [12.0] * 4 + [13.2]})
    static = by_method(compared(before, after))["static"]
    assert static.floor is not None
    assert static.floor.log == pytest.approx(0.8 * math.log(1.1)), "beyond the mean of all seeds"
    assert static.judged is not None
    assert static.judged.ratio.value == pytest.approx(1.2)
    assert static.judged.verdict is Verdict.SLOWER


def test_unlike_conditions_are_refused_unless_forced() -> None:
    before = timed({"dense": flat(10), "static": flat(5)}, again=flat(10))
    after = timed({"dense": flat(10), "static": flat(6)}, again=flat(10), torch_version="3.0")
    for change in compared(before, after).times:
        assert change.refused
        assert (change.measured, change.judged) == (None, None)
        assert [str(d) for d in change.match.differences] == [
            "torch_version (2.11.0 before, 3.0 after)"
        ]
    forced = by_method(compared(before, after, force=True))["static"]
    assert forced.forced
    assert forced.judged is not None
    assert forced.judged.verdict is Verdict.SLOWER


def test_all_rows_are_one_family() -> None:
    names = ("dense", "static", "barter", "set")
    before, after = (timed({m: flat(5) for m in names}, again=flat(5)) for _ in range(2))
    judged = [c.judged for c in compared(before, after).times if c.judged]
    assert len(judged) == 3
    assert len({j.widening for j in judged}) == 1
    assert judged[0].widening > 1.2


# ----------------------------------------------------------------------- properties

LOGS = st.lists(
    st.lists(st.floats(-0.2, 0.2), min_size=ROUNDS, max_size=ROUNDS), min_size=2, max_size=7
)
STUDIES = st.fixed_dictionaries({"dense": LOGS, "static": LOGS, "barter": LOGS, "again": LOGS})


def study_of(logs: dict[str, list[list[float]]]):
    times = {m: [[math.exp(x) for x in rounds] for rounds in logs[m]] for m in logs}
    return timed({m: times[m] for m in logs if m != "again"}, again=times["again"])


@given(STUDIES)
def test_an_identical_copy_shows_no_difference(logs: dict[str, list[list[float]]]) -> None:
    comparison = compared(study_of(logs), study_of(logs))
    assert not comparison.matching.unmatched
    for change in comparison.times:
        assert change.measured is not None
        assert change.measured.value == 1
        assert change.judged is None or change.judged.ratio.value == 1
        verdict = change.judged and change.judged.verdict
        assert verdict not in (Verdict.FASTER, Verdict.SLOWER)


@given(STUDIES, STUDIES, st.floats(0.3, 3))
def test_swapping_the_studies_inverts_ratios_and_verdicts(
    one: dict[str, list[list[float]]], two: dict[str, list[list[float]]], factor: float
) -> None:
    slow = two | {"static": [[x + math.log(factor) for x in r] for r in two["static"]]}
    forth = compared(study_of(one), study_of(slow)).times
    back = compared(study_of(slow), study_of(one)).times
    for mine, theirs in zip(forth, back, strict=True):
        assert mine.measured is not None
        assert theirs.measured is not None
        assert mine.measured.value == pytest.approx(1 / theirs.measured.value)
        assert (mine.judged is None) == (theirs.judged is None)
        if mine.judged and theirs.judged:
            assert mine.judged.ratio.value == pytest.approx(1 / theirs.judged.ratio.value)
            assert mine.judged.verdict is theirs.judged.verdict.inverse
            if mine.judged.low is not None and theirs.judged.high is not None:
                assert mine.judged.low == pytest.approx(1 / theirs.judged.high)


def noisy(rng: np.random.Generator, static: float):
    """Launches of a contender differ by 1 %; so do sittings by up to 30 %, for all alike."""
    sitting = float(np.exp(rng.uniform(-0.3, 0.3)))

    def entry(ms: float) -> Launches:
        own = ms * sitting * np.exp(0.01 * rng.standard_normal((LAUNCHES, 1)))
        return (own * np.exp(0.003 * rng.standard_normal((LAUNCHES, ROUNDS)))).tolist()

    steps = {"dense": entry(10), "static": entry(static), "barter": entry(5)}
    return timed(steps, again=entry(10))


def test_equal_studies_are_rarely_called_different_and_unequal_ones_are() -> None:
    rng = np.random.default_rng(3)
    wrong = found = 0
    for _ in range(150):
        before = noisy(rng, 5)
        equal = by_method(compared(before, noisy(rng, 5)))
        verdicts = {change.judged.verdict for change in equal.values() if change.judged}
        wrong += bool(verdicts & {Verdict.FASTER, Verdict.SLOWER})
        planted = by_method(compared(before, noisy(rng, 6)))["static"].judged
        found += planted is not None and planted.verdict is Verdict.SLOWER
    assert binomtest(wrong, 150, 0.05, alternative="greater").pvalue > 0.01
    assert found == 150
