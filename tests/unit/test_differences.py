"""Differences of accuracy and their verdicts, against values computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.differences import Verdict, family_note, judge
from reports.published import OVER_STATIC, Published, cell, note
from reports.statistics import student_mean
from reports.table import Shown

SMALL = (0.4, 0.5, 0.6)
"""Mean 0.5, standard error 0.1 / sqrt(3); Student's t with 2 degrees: 4.303 at 95 %."""
FINITE = st.floats(-50, 50, allow_nan=False)


def test_one_pair_has_the_interval_of_its_own() -> None:
    (one,) = judge([student_mean(SMALL)])
    assert one.difference is not None
    assert one.together is not None
    assert (one.together.low, one.together.high) == pytest.approx((0.2516, 0.7484), abs=1e-4)
    assert (one.difference.low, one.difference.high) == pytest.approx((0.2516, 0.7484), abs=1e-4)
    assert one.verdict is Verdict.HIGHER


def test_several_pairs_share_the_five_percent() -> None:
    above, below, none, single = judge(
        [student_mean(SMALL), student_mean([-x for x in SMALL]), None, student_mean([1.0])]
    )
    # Two pairs of the four have an interval: t is 6.205 at 97.5 %.
    assert above.together is not None
    assert (above.together.low, above.together.high) == pytest.approx((0.1417, 0.8583), abs=1e-4)
    assert above.difference is not None
    assert above.difference.low == pytest.approx(0.2516, abs=1e-4)
    assert (above.verdict, below.verdict) == (Verdict.HIGHER, Verdict.LOWER)
    assert (none.verdict, none.difference) == (Verdict.NO_SEED, None)
    assert (single.verdict, single.together) == (Verdict.ONE_SEED, None)
    assert "one family of 2 pairs" in family_note([above, below, none, single])


def test_a_family_can_make_a_clear_pair_undecided() -> None:
    pair = student_mean(SMALL)
    assert judge([pair])[0].verdict is Verdict.HIGHER
    assert {one.verdict for one in judge([pair] * 5)} == {Verdict.UNDECIDED}


def test_what_covers_zero_or_shows_no_spread_is_undecided() -> None:
    covering, equal = judge([student_mean([1.0, -1.0, 0.5]), student_mean([0.5, 0.5, 0.5])])
    assert (covering.verdict, equal.verdict) == (Verdict.UNDECIDED, Verdict.UNDECIDED)


def test_equal_but_for_their_last_digits_is_equal() -> None:
    """As of two seeds and few images: 98.32 - 98.60 and 96.92 - 97.20."""
    values = [98.32 - 98.60, 1.12 - 1.40]
    assert values[0] != values[1]
    (equal,) = judge([student_mean(values)])
    assert equal.verdict is Verdict.UNDECIDED


def test_no_difference_of_accuracies_exceeds_all_points() -> None:
    (wide,) = judge([student_mean([10.0, -60.0])])
    assert wide.difference is not None
    assert wide.together is not None
    assert (wide.difference.low, wide.difference.high) == (-100.0, 100.0)
    assert (wide.together.low, wide.together.high) == (-100.0, 100.0)
    assert wide.difference.value == -25.0


def test_single_seeds_establish_nothing() -> None:
    assert "none is established" in family_note(judge([student_mean([3.0])]))


@given(st.lists(st.lists(FINITE, min_size=2, max_size=5), min_size=1, max_size=6))
def test_turning_all_differences_turns_all_verdicts(pairs: list[list[float]]) -> None:
    turned = {Verdict.HIGHER: Verdict.LOWER, Verdict.LOWER: Verdict.HIGHER}
    mine = judge([student_mean(values) for values in pairs])
    theirs = judge([student_mean([-x for x in values]) for values in pairs])
    assert [turned.get(one.verdict, one.verdict) for one in mine] == [x.verdict for x in theirs]


def test_published_figures_as_cells() -> None:
    one = Published(1.86, 1.86, "x", "CCT", "10")
    assert cell(one) == Shown("1.86", 1.86)
    assert cell(None) is None
    over = OVER_STATIC["cct-cifar100"]
    assert cell(over, sign=True) == "+0.27 to +2.97"
    assert cell(over.negated(), sign=True) == "-2.97 to -0.27"
    derived = Published(63.19, 63.19, "%", "ViT", "10", derived=True)
    assert cell(derived) == Shown("63.19 (derived)", 63.19)
    assert note([one, None, derived], "x") == (
        "Published: CCT (specification, section 10); ViT (specification, section 10). Derived: "
        "follows from other published figures."
    )
    assert note([None], "why not") == "No published figure stands here: why not."
