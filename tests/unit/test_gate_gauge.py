"""What a gate's launch times, and how its blocks become one number per contender."""

from collections import Counter
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gate.gauge import launch_ratios
from bench.gate.turns import Turns, in_turn
from bench.measure.observed import Observed
from bench.timing.launcher import Block
from bench.timing.messages import Answer, Ready
from bench.timing.segments import UPDATE, Segment

ORDINARY = Segment("ordinary", (1,), 10, 0.8)
RARE = Segment("rare", (5,), 1, 0.2)
WINDOW = Segment(UPDATE, (3,), 4, 0.1, ("ordinary",) * 4)
PARTS = (ORDINARY, RARE, WINDOW)


def test_turns_follow_weights() -> None:
    # Windows stand for 4 * 0.1 of all steps, ordinary ones for the other 0.4, rare ones for 0.2.
    turns = Counter(part.name for part in in_turn(PARTS, 10))
    assert turns == {"ordinary": 4, "rare": 2, UPDATE: 4}


@given(
    st.lists(st.floats(0.001, 1), min_size=1, max_size=6, unique=True),
    st.integers(0, 20),
)
def test_every_segment_has_its_turn(shares: list[float], more: int) -> None:
    parts = [Segment(str(i), (1,), 5, share) for i, share in enumerate(shares)]
    turns = in_turn(parts, len(parts) + more)
    assert len(turns) == len(parts) + more
    counts = Counter(part.name for part in turns)
    assert set(counts) == {part.name for part in parts}
    heaviest = max(parts, key=lambda part: part.share)
    assert counts[heaviest.name] == max(counts.values())


def test_more_segments_than_rounds_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 rounds are too few for 3 segments"):
        in_turn(PARTS, 2)


def test_one_segment_per_round() -> None:
    ready, turns = Ready(PARTS, {}), Turns(10, steps=2)
    asked = [turns.repetitions(ready, round_) for round_ in range(10)]
    assert all(len(segments) == 1 for segments in asked)
    assert Counter(name for segments in asked for name in segments)["rare"] == 2
    assert {n for segments in asked for n in segments.items()} == {
        ("ordinary", 2),
        ("rare", 2),
        (UPDATE, 1),
    }


def block(run_id: str, role: str, round_: int, segment: str, *times: float) -> Block:
    return Block(run_id, role, 0, round_, 0, Answer({segment: list(times)}, {}, None), Observed())


def test_launch_ratios_by_hand() -> None:
    """The machine is twice as slow in the second round; nothing of that is in the ratios."""
    blocks = [
        block("dense", "bare", 0, "ordinary", 9.0, 11.0),
        block("dense", "bare-again", 0, "ordinary", 10.0),
        block("barter", "contender", 0, "ordinary", 4.0, 6.0),
        block("dense", "contender", 0, "ordinary", 10.0),
        block("dense", "bare", 1, "ordinary", 20.0),
        block("dense", "bare-again", 1, "ordinary", 20.0),
        block("barter", "contender", 1, UPDATE, 22.0, 10.0, 10.0, 10.0),
        block("dense", "contender", 1, "ordinary", 20.0),
    ]
    whole = Segment("ordinary", (1,), 10, 1.0)
    ratios = launch_ratios(blocks, {"dense": (whole,), "barter": (whole, WINDOW)})
    # A window lasts 2.6 steps of the loop, four ordinary steps 2: an update costs 0.6 steps.
    assert ratios == pytest.approx({"again": 0.0, "dense": 0.0, "barter": log(0.5 + 0.1 * 0.6)})


def test_both_entries_of_the_loop_are_the_reference() -> None:
    blocks = [
        block("dense", "bare", 0, "ordinary", 10.0),
        block("dense", "bare-again", 0, "ordinary", 40.0),
        block("dense", "contender", 0, "ordinary", 20.0),
    ]
    ratios = launch_ratios(blocks, {"dense": (Segment("ordinary", (1,), 10, 1.0),)})
    assert ratios == pytest.approx({"again": log(4), "dense": 0.0})
