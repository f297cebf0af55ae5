"""Verdicts at equal cost: against which BARTER, and by hand."""

import math

import pytest

from reports.matched import Entrant, Peers
from reports.matched_leads import Lead, Verdict, leads, over_seeds, reference_of
from tests.unit.matched_fixture import entrant

T_4 = 2.7764451  # 97.5 % quantile of Student's t with 4 degrees of freedom, from a table
T_4_HALF = 3.4954059  # 98.75 %: two intervals that share 5 %
BARTER = (80.0, 81.0, 82.0, 83.0, 84.0)


def beside(method: str, *differences: float, density: float = 0.3) -> Entrant:
    """Ahead of BARTER by so much, seed by seed."""
    return entrant(
        method, {seed: [BARTER[seed] + d] for seed, d in enumerate(differences)}, density
    )


def barter(density: float = 0.3) -> Entrant:
    return entrant("barter", {seed: [top1] for seed, top1 in enumerate(BARTER)}, density)


def judged(*entrants: Entrant) -> list[Lead | None]:
    found = leads([Peers(entrants)])
    return [found.get(e) for e in entrants]


# -------------------------------------------------------------------------- verdicts


def test_one_pair_has_its_own_interval() -> None:
    # Differences 2, 1, 2, 1, 2: mean 1.6, standard deviation 0.5477.
    first, second = judged(beside("rigl", 2, 1, 2, 1, 2), barter())
    assert second is None
    assert first is not None
    reach = T_4 * math.sqrt(0.3 / 5)
    d = first.difference
    assert (d.value, d.low, d.high) == pytest.approx((1.6, 1.6 - reach, 1.6 + reach))
    assert (first.verdict, d.runs) == (Verdict.HIGHER, 5)


def test_pairs_of_a_table_share_five_percent() -> None:
    first, second, _ = judged(
        beside("rigl", 2, 1, 2, 1, 2), beside("set", -2, -1, -2, -1, -2), barter()
    )
    assert first is not None
    assert second is not None
    reach = T_4_HALF * math.sqrt(0.3 / 5)
    assert first.difference.low == pytest.approx(1.6 - reach)
    assert second.difference.high == pytest.approx(-1.6 + reach)
    assert (first.verdict, second.verdict) == (Verdict.HIGHER, Verdict.LOWER)


def test_settings_are_one_family() -> None:
    settings = [Peers((beside("rigl", 2, 1, 2, 1, 2), barter())) for _ in range(2)]
    reach = T_4_HALF * math.sqrt(0.3 / 5)
    lows = [lead.difference.low for lead in leads(settings).values()]
    assert lows == pytest.approx([1.6 - reach] * 2)


def test_what_is_clear_alone_may_be_undecided_among_many() -> None:
    # Mean 0.7, standard error 0.224: 3.13 of them, between the two quantiles.
    close = (1.2, 0.2, 1.2, 0.2, 0.7)
    assert T_4 * math.sqrt(0.05) < 0.7 < T_4_HALF * math.sqrt(0.05)
    alone = judged(beside("rigl", *close), barter())[0]
    assert alone is not None
    assert alone.verdict is Verdict.HIGHER
    first, second, _ = judged(beside("rigl", *close), beside("set", 2, 1, 2, 1, 2), barter())
    assert first is not None
    assert second is not None
    assert (first.verdict, second.verdict) == (Verdict.UNDECIDED, Verdict.HIGHER)


def test_one_seed_decides_nothing_and_is_no_part_of_the_family() -> None:
    single, other, _ = judged(beside("set", 9), beside("rigl", 2, 1, 2, 1, 2), barter())
    assert single is not None
    assert (single.verdict, single.difference.low) == (Verdict.ONE_SEED, None)
    assert single.difference.value == pytest.approx(9)
    assert other is not None
    assert other.difference.low == pytest.approx(1.6 - T_4 * math.sqrt(0.3 / 5))


def test_equal_differences_are_no_certainty() -> None:
    lead, _ = judged(beside("rigl", 0.5, 0.5, 0.5), barter())
    assert lead is not None
    assert (lead.verdict, lead.difference.low) == (Verdict.NO_SPREAD, None)
    assert lead.difference.runs == 3
    mean = over_seeds([0.1 + 0.2, 0.3])
    assert mean is not None
    assert (mean.low, mean.runs) == (None, 2)


def test_only_common_seeds_are_paired() -> None:
    mine = entrant("rigl", {3: [83.0], 4: [86.0], 9: [0.0]})
    lead, _ = judged(mine, barter())
    assert lead is not None
    assert (lead.difference.value, lead.difference.runs) == (pytest.approx(1.0), 2)
    assert judged(entrant("rigl", {9: [83.0]}), barter())[0] is None


def test_a_run_that_was_not_evaluated_by_then_has_no_difference() -> None:
    late = entrant("rigl", {0: [90.0], 1: [90.0]}, from_cost=5.0)
    assert judged(late, barter())[0] is None
    peers = Peers((late, beside("set", 1, 2), barter()))
    assert [e.contender.method for e in leads([peers])] == ["set"]
    late_reference = entrant("barter", {0: [90.0], 1: [90.0]}, from_cost=5.0)
    assert judged(beside("rigl", 1, 2), late_reference)[0] is None


# ---------------------------------------------------------------------- the reference


def test_the_reference_is_plain_barter_of_the_same_density() -> None:
    mine = barter()
    dense, static, elsewhere = (
        entrant("dense", {0: [90.0]}, density=1.0),
        entrant("static", {0: [80.0]}),
        entrant("static", {0: [80.0]}, density=0.1),
    )
    varied = entrant("barter", {0: [80.0]}, variant="beta=0.9")
    random = entrant("barter-random-pair", {0: [80.0]})
    broken = entrant("barter", {0: [80.0]}, density=0.1, valid=False)
    peers = Peers((dense, static, elsewhere, varied, random, broken, mine))
    found = {e: reference_of(e, peers) for e in peers.entrants}
    assert found == {
        **dict.fromkeys((static, varied, random, mine), mine),
        **dict.fromkeys((dense, elsewhere, broken)),
    }


def test_of_several_schedules_the_own_one() -> None:
    short, long = (entrant("barter", {0: [80.0]}, steps=steps) for steps in (20, 40))
    static, other = (entrant("static", {0: [80.0]}, steps=steps) for steps in (20, 30))
    peers = Peers((short, long, static, other))
    assert [reference_of(e, peers) for e in peers.entrants] == [short, long, short, None]
    assert reference_of(other, Peers((long, other))) is long
