"""Budgets: the published table, and what must hold for any model."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from methods.budget import (
    BudgetError,
    TransformerShape,
    UnitBudget,
    attention_budget,
    ffn_budget,
    smallest_density,
    spread,
    unit_budget,
)
from methods.schedule import CHANNEL, HEAD, transfer_count

CCT = TransformerShape(layers=7, width=256, heads=16, head_dim=16, channels=512, qkv_bias=False)
VIT = TransformerShape(layers=9, width=192, heads=12, head_dim=16, channels=384, qkv_bias=True)

# Specification, section 5: heads, channels, head transfers, channel transfers.
PUBLISHED = [
    (CCT, 0.1, 11, 371, 1, 21),
    (CCT, 0.3, 34, 1067, 2, 60),
    (CCT, 0.5, 56, 1795, 3, 101),
    (CCT, 0.7, 78, 2523, 5, 142),
    (VIT, 0.1, 11, 359, 1, 20),
    (VIT, 0.3, 33, 1033, 2, 58),
    (VIT, 0.5, 54, 1739, 3, 98),
    (VIT, 0.7, 76, 2413, 4, 136),
    (CCT, 1.0, 112, 3584, 0, 0),
    (VIT, 1.0, 108, 3456, 0, 0),
]


@pytest.mark.parametrize(("shape", "density", "heads", "channels", "k_h", "k_c"), PUBLISHED)
def test_published(
    shape: TransformerShape, density: float, heads: int, channels: int, k_h: int, k_c: int
) -> None:
    budget = unit_budget(shape, density)
    assert budget == UnitBudget(heads, channels)
    widths = {HEAD: spread(heads, shape.layers), CHANNEL: spread(channels, shape.layers)}
    assert transfer_count(HEAD, widths[HEAD], shape.heads) == k_h
    assert transfer_count(CHANNEL, widths[CHANNEL], shape.channels) == k_c


def test_rounding_is_exact() -> None:
    # 0.7 as a binary fraction is a little less than 7/10; with 10 heads of no bias the attention
    # budget is exactly 7 heads, and 0.75 of 2 heads is exactly 1.5, which goes up.
    ten = TransformerShape(layers=1, width=8, heads=10, head_dim=2, channels=10, qkv_bias=False)
    assert unit_budget(ten, 0.7).heads == 7
    two = TransformerShape(layers=1, width=8, heads=2, head_dim=4, channels=8, qkv_bias=False)
    assert unit_budget(two, 0.75).heads == 2


shapes = st.builds(
    TransformerShape,
    layers=st.integers(1, 12),
    width=st.sampled_from([16, 64, 192]),
    heads=st.integers(1, 16),
    head_dim=st.sampled_from([4, 16, 64]),
    channels=st.integers(128, 512),
    qkv_bias=st.booleans(),
)


@given(shapes, st.integers(1, 1000))
def test_budget_is_spent_to_less_than_one_channel(shape: TransformerShape, mille: int) -> None:
    density = mille / 1000
    assume(density >= smallest_density(shape))
    budget = unit_budget(shape, density)
    allowed = attention_budget(shape, density) + ffn_budget(shape, density)
    channel = shape.channel_weights + shape.channel_biases
    left_over = allowed - budget.parameters(shape)
    assert left_over >= 0
    # Only a model whose channels are all active already can leave more.
    assert left_over < channel or budget.channels == shape.total_channels
    assert 1 <= budget.heads <= shape.total_heads


@pytest.mark.parametrize("density", [0.0, -0.1, 1.01, float("nan")])
def test_density_outside(density: float) -> None:
    with pytest.raises(BudgetError, match=r"outside \(0, 1\]"):
        unit_budget(VIT, density)


def test_too_small() -> None:
    with pytest.raises(
        BudgetError, match=f"buys 1 heads and 0 channels; .*from {smallest_density(VIT)} on work"
    ):
        unit_budget(VIT, 0.001)


def test_spread_by_hand() -> None:
    assert spread(11, 7) == (2, 1, 2, 1, 2, 1, 2)
    assert spread(11, 9) == (1, 1, 2, 1, 1, 1, 2, 1, 1)
    assert spread(2, 4) == (0, 1, 0, 1)
    assert spread(8, 4) == (2, 2, 2, 2)


@given(st.integers(0, 5000), st.integers(1, 24))
def test_spread(total: int, layers: int) -> None:
    widths = spread(total, layers)
    assert sum(widths) == total
    assert max(widths) - min(widths) <= 1
    # Evenly over depth: the excess of any prefix stays within one unit of its share.
    base = total // layers
    excess = total - base * layers
    for depth in range(1, layers + 1):
        assert abs(sum(widths[:depth]) - base * depth - excess * depth / layers) <= 1
