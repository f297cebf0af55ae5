"""Tiny masks computed by hand, then properties of every drop rule and of growth."""

from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.drop_grow import (
    drop_by_sign,
    drop_smallest,
    drop_smallest_ceil,
    drop_to_threshold,
    grow_bernoulli,
    grow_largest,
)

ON, OFF = True, False


def test_exchange_by_hand() -> None:
    weight = torch.tensor([[0.0, -3.0, 1.0], [0.5, 0.0, -2.0]])
    mask = torch.tensor([[OFF, ON, ON], [ON, OFF, ON]])
    # int(4 * 0.6) = 2 smallest of 3, 1, 0.5, 2 go.
    drop = drop_smallest(weight, mask, 4, 0.6)
    assert (drop.dropped, drop.nominal) == (2, 2)
    assert drop.kept.tolist() == [[OFF, ON, OFF], [OFF, OFF, ON]]
    # Two come by gradient: the dropped 1.0 (9) and the inactive middle (5), not the kept -3.
    gradient = torch.tensor([[1.0, 99.0, 9.0], [0.0, 5.0, 99.0]])
    grown = grow_largest(gradient, drop.kept, 2, mask)
    assert grown.tolist() == [[OFF, ON, ON], [OFF, ON, ON]]


def test_an_active_zero_outlives_inactive_zeros() -> None:
    weight = torch.tensor([0.0, 0.0, 0.0, 1.0])
    mask = torch.tensor([OFF, ON, ON, ON])
    assert drop_smallest(weight, mask, 3, 0.34).kept.tolist() == [OFF, ON, OFF, ON]


def test_dead_gradients_regrow_the_dropped_before_the_inactive() -> None:
    kept, mask = torch.tensor([OFF, OFF, OFF, ON]), torch.tensor([OFF, OFF, ON, ON])
    assert grow_largest(torch.zeros(4), kept, 1, mask).tolist() == [OFF, OFF, ON, ON]


def test_threshold_takes_ties_with_it() -> None:
    weight = torch.tensor([1.0, -1.0, 2.0, 3.0, 0.0])
    mask = torch.tensor([ON, ON, ON, ON, OFF])
    drop = drop_to_threshold(weight, mask, 4, 0.25)
    assert drop.kept.tolist() == [OFF, OFF, ON, ON, OFF]
    assert (int(drop.dropped), drop.nominal) == (2, 1)
    assert drop_smallest_ceil(weight, mask, 4, 0.25).kept.tolist() == [ON, OFF, ON, ON, OFF]


def test_a_rate_of_zero_drops_exact_zeros() -> None:
    weight, mask = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([ON, ON, ON])
    drop = drop_smallest_ceil(weight, mask, 3, 0.0)
    assert drop.kept.tolist() == [ON, OFF, ON]
    assert (int(drop.dropped), drop.nominal) == (1, 0)


def test_signs_by_hand() -> None:
    # Sorted: -4 -3 0 1 2 3; two negative, three positive. Positive boundary at index
    # int(3 + 0.34 * 3) = 4, value 2; negative one at int(0.66 * 2) = 1, value -3.
    weight = torch.tensor([-4.0, -3.0, 0.0, 1.0, 2.0, 3.0])
    mask = weight != 0
    drop = drop_by_sign(weight, mask, 5, 0.34)
    assert drop.kept.tolist() == [ON, OFF, OFF, OFF, OFF, ON]
    assert int(drop.dropped) == 3


@st.composite
def matrix(draw: st.DrawFn) -> tuple[Tensor, Tensor, int]:
    """Weights with many ties (0 where inactive), their mask, and the number active."""
    size = draw(st.integers(1, 24))
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    values = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    return torch.tensor(values, dtype=torch.float32) * mask, mask, int(mask.sum())


RULES = (drop_smallest, drop_smallest_ceil, drop_to_threshold, drop_by_sign)


@pytest.mark.parametrize("rule", RULES)
@given(given_matrix=matrix(), fraction=st.floats(0.01, 1.0), seed=st.integers(0, 99))
def test_every_rule(rule, given_matrix: tuple[Tensor, Tensor, int], fraction: float, seed: int):
    weight, mask, active = given_matrix
    drop = rule(weight, mask, active, fraction)
    assert not (drop.kept & ~mask).any()
    assert active - int(drop.kept.sum()) == int(drop.dropped)
    if rule in (drop_smallest, drop_smallest_ceil):
        expected = int(active * fraction) if rule is drop_smallest else ceil(active * fraction)
        assert drop.dropped == drop.nominal == expected or drop.nominal == 0
    if rule is not drop_by_sign and drop.kept.any() and (mask & ~drop.kept).any():
        assert weight[drop.kept].abs().min() >= weight[mask & ~drop.kept].abs().max()
    scores = torch.rand(weight.shape, generator=torch.Generator().manual_seed(seed))
    grown = grow_largest(scores, drop.kept, drop.dropped, mask)
    assert int(grown.sum()) == active
    assert bool(grown[drop.kept].all())


def test_bernoulli_growth_meets_its_expectation() -> None:
    kept = torch.zeros(10_000, dtype=torch.bool)
    kept[:2000] = True
    draws = torch.rand(10_000, generator=torch.Generator().manual_seed(1))
    grown = grow_bernoulli(draws, kept, 800) & ~kept
    assert 700 < int(grown.sum()) < 900
    assert bool(grow_bernoulli(draws, torch.ones_like(kept), 0).all())
