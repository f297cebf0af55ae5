"""SRigL's update: a tiny matrix by hand, then its invariants."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from baselines.constant_fan_in import Ablation, update_fan_in


def test_without_ablation_by_hand() -> None:
    weight = torch.tensor([[3.0, 2.0, 0.0, 0.0], [0.5, 0.0, 1.0, 0.0]])
    gradient = torch.tensor([[0.0, 0.0, 1.0, 2.0], [5.0, 9.0, 0.0, 7.0]])
    # a = 4, k = 2: kept are 3 and 2, both in row 0. Row 1 grows two: 9 and 7.
    update = update_fan_in(weight, weight != 0, gradient, 0.5, 4, None)
    assert update.mask.int().tolist() == [[1, 1, 0, 0], [0, 1, 0, 1]]
    assert (int(update.n_keep), int(update.fan_in)) == (2, 2)


def test_a_row_without_salient_entries_is_ablated() -> None:
    weight = torch.tensor([[3.0, 2.0, 0.0, 0.0], [0.5, 0.0, 0.6, 0.0], [4.0, 0.0, 5.0, 0.0]])
    gradient = torch.tensor([[9.0, 8.0, 1.0, 2.0], [0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 3.0, 2.5]])
    # n_keep = 4: 5, 4, 3, 2. Salient rows: 2, 0, 2. Two rows live on capacity 6: fan-in 3.
    update = update_fan_in(weight, weight != 0, gradient, 0.34, 6, Ablation(2.0, False))
    assert update.living.tolist() == [True, False, True]
    assert update.mask.int().tolist() == [[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 1, 1]]
    assert int(update.fan_in) == 3


def test_a_crowded_row_keeps_its_largest() -> None:
    weight = torch.tensor([[1.0, 4.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    update = update_fan_in(weight, weight != 0, torch.ones(2, 4), 0.1, 4, None)
    assert update.mask.int().tolist() == [[0, 1, 1, 0], [1, 1, 0, 0]]


@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    fan_in=st.integers(1, 6),
    fraction=st.floats(0, 0.9),
    gamma=st.sampled_from([0.0, 0.3, 0.95, 2.0]),
    sparse=st.booleans(),
    seed=st.integers(0, 999),
)
def test_invariants(
    rows: int, columns: int, fan_in: int, fraction: float, gamma: float, sparse: bool, seed: int
) -> None:
    fan_in = min(fan_in, columns)
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, columns, generator=generator).argsort(1) < fan_in
    # Few values, so that ties and exact zeros among active entries are common.
    weight = torch.randint(-2, 3, (rows, columns), generator=generator).float() * mask
    gradient = torch.randint(-2, 3, (rows, columns), generator=generator).float()
    capacity = min(rows * columns, fan_in * rows + seed % rows)
    ablation = Ablation(gamma, sparse) if gamma else None
    update = update_fan_in(weight, mask, gradient, fraction, capacity, ablation)
    per_row = update.mask.sum(1)
    q = int(update.fan_in)
    assert 1 <= q <= columns
    assert per_row.tolist() == [q if lives else 0 for lives in update.living.tolist()]
    assert int(update.mask.sum()) <= capacity
    assert q == capacity // int(update.living.sum())
