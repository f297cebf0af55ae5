"""What a method promises about its number of active parameters; a test holds it to that."""

from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    """How active parameters stand to those that the method's own rule allows."""

    EXACT = "exact"
    AT_MOST = "at most"
    AT_LEAST = "at least"
    TRACKS = "within"


@dataclass(frozen=True)
class BudgetInvariant:
    """Holds before the first step and after every topology update."""

    promise: Promise
    bound: float = 0.0
    """Of TRACKS: largest deviation, as a fraction of what is allowed."""

    def holds(self, active: int, allowed: int) -> bool:
        match self.promise:
            case Promise.EXACT:
                return active == allowed
            case Promise.AT_MOST:
                return active <= allowed
            case Promise.AT_LEAST:
                return active >= allowed
            case Promise.TRACKS:
                return abs(active - allowed) <= self.bound * allowed

    def __str__(self) -> str:
        return self.promise.value + (f" {self.bound:.0%}" if self.bound else "")


EXACT = BudgetInvariant(Promise.EXACT)
AT_MOST = BudgetInvariant(Promise.AT_MOST)
AT_LEAST = BudgetInvariant(Promise.AT_LEAST)


def tracks(bound: float) -> BudgetInvariant:
    """Drifts around the allowed number, by at most this fraction of it."""
    return BudgetInvariant(Promise.TRACKS, bound)
