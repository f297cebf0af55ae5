"""Which segment a contender times in which round of a gate's launch. Pure, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.timing.messages import Ready
from bench.timing.segments import Segment

ROUNDS = 14


@dataclass(frozen=True)
class Turns:
    """One segment per round, in blocks as short as can be.

    A machine's speed wanders within tenths of a second, so many rounds of two steps tell more
    than few rounds of many. Segments take turns as their weight in the mean step deserves.
    """

    rounds: int
    steps: int = 2
    """Scored ones of a block; of update windows there is one in a block."""

    def repetitions(self, ready: Ready, round_: int) -> dict[str, int]:
        turns = in_turn(ready.segments, self.rounds)
        part = turns[round_ % len(turns)]
        return {part.name: 1 if part.is_window else self.steps}


def in_turn(parts: Sequence[Segment], rounds: int) -> list[Segment]:
    """The segment of every round: each at least once, spread evenly.

    The variance of the mean step is the sum of weight^2 / turns, so each further turn goes where
    it lowers that most.

    Raises:
        ValueError: fewer rounds than segments.
    """
    if rounds < len(parts):
        raise ValueError(f"{rounds} rounds are too few for {len(parts)} segments")
    weights = _weights(parts)
    turns = dict.fromkeys(weights, 1)
    for _ in range(rounds - len(parts)):
        turns[max(turns, key=lambda n: weights[n] ** 2 / (turns[n] * (turns[n] + 1)))] += 1
    named = {part.name: part for part in parts}
    places = [
        ((turn + 0.5) / count, name) for name, count in turns.items() for turn in range(count)
    ]
    return [named[name] for _, name in sorted(places)]


def _weights(parts: Sequence[Segment]) -> dict[str, float]:
    """By how much the mean step changes with the mean time of each segment's steps: windows take
    the place of steps of other segments."""
    weights = {part.name: part.share * (part.length if part.is_window else 1) for part in parts}
    for window in parts:
        for name in window.base:
            weights[name] -= window.share
    return weights
