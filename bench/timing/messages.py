"""What the coordinator and its contenders' processes tell each other. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.timing.segments import Segment


@dataclass(frozen=True)
class Ready:
    """Built, warmed up, back in the state it started from, and about to sleep."""

    segments: tuple[Segment, ...]
    pace_ms: Mapping[str, float]
    """By segment: about how long one step, or one whole window, takes."""


@dataclass(frozen=True)
class Scouted:
    """Where the updates of a schedule lead: the method's state, packed; None if shapes stay."""

    final: bytes | None


@dataclass(frozen=True)
class Request:
    """Time these segments now."""

    repetitions: Mapping[str, int]


@dataclass(frozen=True)
class Answer:
    """Milliseconds of every step that was timed, by segment."""

    times_ms: Mapping[str, list[float]]
    foreign_cpu_cores: float | None
    """Cores that other programs used meanwhile; None where it cannot be known."""


@dataclass(frozen=True)
class Failed:
    """The process gave up."""

    reason: str
