"""Selections by rank: hand-computed, then against a plain sort with every tie stated."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from methods.ranking import largest, largest_per_row

ON, OFF = True, False


def test_ties_go_to_the_lowest_index() -> None:
    scores = torch.tensor([[1.0, 3.0], [3.0, 3.0]])
    assert largest(scores, 2).tolist() == [[OFF, ON], [ON, OFF]]
    assert largest(scores, 0).tolist() == [[OFF, OFF], [OFF, OFF]]
    assert largest(scores, -1).tolist() == [[OFF, OFF], [OFF, OFF]]
    assert largest(scores, 9).tolist() == [[ON, ON], [ON, ON]]


def test_the_preferred_go_first_among_ties() -> None:
    scores = torch.tensor([2.0, 2.0, 1.0, 2.0])
    first = torch.tensor([OFF, ON, ON, ON])
    assert largest(scores, 2, first).tolist() == [OFF, ON, OFF, ON]
    assert largest(scores, 3, first).tolist() == [ON, ON, OFF, ON]


def test_each_row_has_its_own_count() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    counts = torch.tensor([[1], [2]])
    assert largest_per_row(scores, counts).tolist() == [[OFF, OFF, ON], [ON, ON, OFF]]


@given(st.data())
def test_equals_a_plain_sort(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    size = rows * columns
    scores = data.draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size))
    first = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    count = data.draw(st.integers(-1, size + 1))
    order = sorted(range(size), key=lambda i: (-scores[i], not first[i], i))
    expected = set(order[: max(0, count)])
    shape = (rows, columns)
    for number in (count, torch.tensor(count)):
        mask = largest(
            torch.tensor(scores, dtype=torch.float32).view(shape),
            number,
            torch.tensor(first).view(shape),
        )
        assert {i for i, on in enumerate(mask.flatten().tolist()) if on} == expected
