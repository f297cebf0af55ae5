"""When transfers happen, and for how long a clone is protected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.schedule import (
    CHANNEL,
    HEAD,
    Window,
    cooldown_steps,
    is_feasible,
    last_collecting_step,
    proposal_steps,
    transfer_count,
)


def test_by_hand() -> None:
    # Window of 1000 steps: 100 to 400. Three channel transfers at its thirds; three head
    # transfers at the midpoints of its thirds; two at 100 + 75 and 100 + 225.
    assert proposal_steps(CHANNEL, 3, 1000) == (200, 300, 400)
    assert proposal_steps(HEAD, 3, 1000) == (150, 250, 350)
    assert proposal_steps(HEAD, 2, 1000) == (175, 325)
    assert cooldown_steps(CHANNEL, 3, 1000) == 200
    assert cooldown_steps(HEAD, 3, 1000) == 100


def test_halves_go_up() -> None:
    # Window 10 to 40 of 100: the one head proposal of four intervals is at 13.75, 21.25, ...
    assert proposal_steps(HEAD, 4, 100) == (14, 21, 29, 36)
    # 1 to 4 of 10, two channel proposals at 2.5 and 4.
    assert proposal_steps(CHANNEL, 2, 10) == (3, 4)


@given(
    st.sampled_from([HEAD, CHANNEL]),
    st.integers(0, 200),
    st.integers(1, 5000),
    st.floats(0, 0.9),
    st.floats(0.01, 0.1),
)
def test_proposals_stay_in_the_window(
    unit_type: str, transfers: int, total: int, start: float, length: float
) -> None:
    window = Window(round(start, 3), round(start + length, 3))
    steps = proposal_steps(unit_type, transfers, total, window)
    assert len(steps) == transfers
    assert list(steps) == sorted(steps)
    low, high = window.bounds(total)
    assert all(max(1, low - 1) <= step <= max(1, high + 1) for step in steps)
    assert last_collecting_step(steps) == (steps[-1] if steps else 0)


def test_very_short_schedule_waits_for_the_first_step() -> None:
    assert proposal_steps(CHANNEL, 3, 3) == (1, 1, 1)


def test_feasible() -> None:
    assert is_feasible(HEAD, [1, 1], 2)
    assert not is_feasible(HEAD, [2, 2], 2), "no room anywhere"
    assert not is_feasible(HEAD, [0, 2], 4), "the only donor would be the receiver"
    assert not is_feasible(CHANNEL, [1, 1], 4), "each layer keeps its last channel"
    assert is_feasible(CHANNEL, [2, 1], 4), "layer 0 can give to layer 1"
    assert not is_feasible(CHANNEL, [2], 4)


def test_counts() -> None:
    assert transfer_count(HEAD, [1, 0], 4) == 0
    assert transfer_count(HEAD, [1, 1], 4) == 1, "at least one where any is feasible"
    # Half up in exact arithmetic: 17 * 2/34 = 1, 25.5 heads at 1x would be 1.5.
    assert transfer_count(HEAD, [17, 0, 0, 17], 20) == 2
    assert transfer_count(HEAD, [17, 34], 40, multiplier=0.5) == 2, "51 * 0.5 * 2/34 = 1.5"
    # The product before the rounding: 1.18 would round to 1 and give 3.
    assert transfer_count(HEAD, [10, 10], 16, multiplier=3) == 4


@pytest.mark.parametrize("unit_type", [HEAD, CHANNEL])
def test_no_transfers(unit_type: str) -> None:
    assert proposal_steps(unit_type, 0, 100) == ()
    assert cooldown_steps(unit_type, 0, 100) == 0
