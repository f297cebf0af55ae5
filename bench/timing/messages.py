"""What the coordinator and its contenders' processes tell each other. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.schema import FAILED
from bench.timing.segments import Segment


@dataclass(frozen=True)
class Ready:
    """Built, warmed up, back in the state it started from, and about to sleep."""

    segments: tuple[Segment, ...]
    pace_ms: Mapping[str, float]
    """By segment: about how long one step, or one whole window, takes."""
    resident_bytes: int | None = None
    """Memory of the process; None where it cannot be known."""


@dataclass(frozen=True)
class Scouted:
    """What is known of a contender before it is timed."""

    final: bytes | None
    """The method's state after its last update, packed; None where shapes stay."""
    run: Mapping[str, Any]
    """Columns of its row of `runs`."""
    segments: tuple[Mapping[str, Any], ...]
    """Its rows of `segments`."""
    parts: tuple[Segment, ...]


@dataclass(frozen=True)
class Request:
    """Time these segments now."""

    repetitions: Mapping[str, int]


@dataclass(frozen=True)
class Answer:
    """Milliseconds of every step that was timed, by segment."""

    times_ms: Mapping[str, list[float]]
    unscored_steps: Mapping[str, int]
    """By segment: steps taken before scored ones."""
    foreign_cpu_cores: float | None
    """Cores that other programs used meanwhile; None where it cannot be known."""
    reason_codes: Sequence[str] = ()
    """What torch did meanwhile that makes the times doubtful."""


@dataclass(frozen=True)
class Failed:
    """The process gave up."""

    reason: str
    status: str = FAILED
    """Or skipped, where the density gives the method no topology."""
