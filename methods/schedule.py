"""When transfers are attempted and how long a cloned unit is protected
(specification, sections 3 and 4). Pure functions, no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from methods.rounding import exact, round_half_up

HEAD = "head"
CHANNEL = "channel"
UNIT_TYPES = (HEAD, CHANNEL)
"""Heads first: the order in which transfers of one step are attempted (chosen)."""

MIN_WIDTH = {HEAD: 0, CHANNEL: 1}
"""Units that a removal must leave in a layer: attention may fall to zero heads."""

_PUBLISHED_TRANSFERS = {HEAD: Fraction(2, 34), CHANNEL: Fraction(60, 1067)}
"""Transfers per initially active unit in the published CCT run at density 0.3."""

_COOLDOWN_INTERVALS = {HEAD: 1, CHANNEL: 2}


@dataclass(frozen=True)
class Window:
    """Fractions of the run between which the topology may change."""

    start: float = 0.1
    end: float = 0.4

    def bounds(self, total_steps: int) -> tuple[Fraction, Fraction]:
        """First and last step of the window, exact."""
        return exact(self.start) * total_steps, exact(self.end) * total_steps


def is_feasible(unit_type: str, widths: Sequence[int], max_width: int) -> bool:
    """Whether any transfer is possible at these widths: some layer can receive and another give."""
    receivers = [layer for layer, n in enumerate(widths) if 0 < n < max_width]
    donors = [layer for layer, n in enumerate(widths) if n - 1 >= MIN_WIDTH[unit_type]]
    return any(donor != receiver for receiver in receivers for donor in donors)


def transfer_count(
    unit_type: str, widths: Sequence[int], max_width: int, multiplier: float = 1
) -> int:
    """Scheduled transfers for initial per-layer `widths`: at least one where any is feasible."""
    if not is_feasible(unit_type, widths, max_width):
        return 0
    units = exact(multiplier) * sum(widths)
    return max(1, round_half_up(units * _PUBLISHED_TRANSFERS[unit_type]))


def proposal_steps(
    unit_type: str, transfers: int, total_steps: int, window: Window = Window()
) -> tuple[int, ...]:
    """Steps (1-based) after whose optimizer step a transfer is attempted, one entry each.

    Channels sit on the ends of equal intervals of the window, heads on their midpoints. In a
    schedule so short that a proposal would come before the first step, it comes after that step.
    """
    start = window.bounds(total_steps)[0]
    interval = _interval(transfers, total_steps, window)
    offset = Fraction(1, 2) if unit_type == HEAD else Fraction(0)
    steps = (round_half_up(start + (k - offset) * interval) for k in range(1, transfers + 1))
    return tuple(max(1, step) for step in steps)


def cooldown_steps(
    unit_type: str, transfers: int, total_steps: int, window: Window = Window()
) -> float:
    """Steps for which parent and copy may not become donors: two typical channel-proposal
    intervals, or one head-proposal interval."""
    return float(_COOLDOWN_INTERVALS[unit_type] * _interval(transfers, total_steps, window))


def last_collecting_step(steps: Sequence[int]) -> int:
    """Scores are collected up to and including the last proposal; 0 where there is none."""
    return max(steps, default=0)


def _interval(transfers: int, total_steps: int, window: Window) -> Fraction:
    start, end = window.bounds(total_steps)
    return (end - start) / transfers if transfers else Fraction(0)
