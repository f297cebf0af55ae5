"""Spreading a density over matrices."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.budget import BudgetError
from methods.density import (
    active_count,
    connection_capacity,
    constant_fan_in,
    erk_densities,
    layer_sparsities,
    uniform_sparsities,
)


def test_by_hand() -> None:
    # raw = (4+4)/16 and (2+8)/16; ones at 0.5: 8 + 8 = eps (8 + 10).
    assert erk_densities([[4, 4], [2, 8]], 0.5) == pytest.approx([4 / 9, 5 / 9])
    assert active_count(1440, 1 - 0.1) == 144
    # 1 - 0.9 is a little below 0.1.
    assert connection_capacity(1440, 1 - 0.1) == 143
    assert constant_fan_in(36, 1440, 1 - 0.1) == 3


def test_kept_dense_layers_are_paid_for() -> None:
    # 100 + 300 entries at 0.4: 160 active, 100 of them dense, 60 of 300.
    assert uniform_sparsities([100, 300], 0.4, kept_dense=[0]) == pytest.approx([0.0, 0.8])
    # They cannot be paid for: the others get the plain density.
    assert uniform_sparsities([300, 100], 0.4, kept_dense=[0]) == pytest.approx([0.0, 0.6])
    assert erk_densities([[10, 10], [10, 30]], 0.4, kept_dense=[0]) == pytest.approx([1.0, 0.2])
    with pytest.raises(BudgetError):
        erk_densities([[10, 30], [10, 10]], 0.4, kept_dense=[0])


@given(
    shapes=st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=6),
    density=st.floats(0.01, 1.0),
    integer=st.booleans(),
)
def test_erk_meets_the_density(
    shapes: list[tuple[int, int]], density: float, integer: bool
) -> None:
    densities = erk_densities(shapes, density, integer=integer)
    assert all(0 < d <= 1 for d in densities)
    active = sum(d * prod(s) for d, s in zip(densities, shapes, strict=True))
    total = sum(map(prod, shapes))
    assert active == pytest.approx(density * total, abs=len(shapes) if integer else 1e-6 * total)


@pytest.mark.parametrize("density", [0.0, -0.1, 1.1])
def test_density_out_of_range(density: float) -> None:
    for distribution in ("uniform", "erk", "erk-float"):
        with pytest.raises(BudgetError, match="outside"):
            layer_sparsities([[4, 4]], density, distribution)


def test_unknown_distribution_and_no_connection() -> None:
    with pytest.raises(ValueError, match="best"):
        layer_sparsities([[4, 4]], 0.5, "best")
    with pytest.raises(BudgetError, match="fan-in"):
        constant_fan_in(16, 16 * 8, 0.95)
