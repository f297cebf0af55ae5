"""When the baselines change their masks, and how much (baselines page, sections 1 and 3).

Pure functions and values, no torch. Steps are 1-based: step t is the t-th optimizer step, and
an update at step t belongs to that step.
"""

from dataclasses import dataclass
from math import cos, pi

COSINE, COSINE_DECAY, CONSTANT = "cosine", "cosine-decay", "constant"

DECAY_FLOOR = 0.005
"""Where sparse_learning, ITOP and SViTE end their rate."""


def cosine_fraction(alpha: float, step: int, end: int) -> float:
    """RigL's drop fraction: alpha at step 0, 0 at `end`."""
    return alpha / 2 * (1 + cos(pi * step / end))


def cosine_decay(rate: float, steps_done: int, total_steps: int) -> float:
    """sparse_learning's `CosineDecay` after so many optimizer steps; over all steps of the run,
    so that the floor is not reached by an update before the last."""
    return DECAY_FLOOR + (rate - DECAY_FLOOR) * (1 + cos(pi * steps_done / total_steps)) / 2


def fitted_interval(interval: int, end: int, min_updates: int) -> int:
    """`interval`, shortened where fewer than `min_updates` updates came before `end` (chosen).

    Runs of fewer than `min_updates` + 1 steps update at every step.
    """
    if min_updates == 0:
        return interval
    return max(1, min(interval, (end - 1) // min_updates))


@dataclass(frozen=True)
class UpdateSchedule:
    """Updates at multiples of `interval` strictly before `end`."""

    interval: int
    end: int
    """First step without updates (T_end)."""
    alpha: float
    """Drop fraction at step 0."""
    total_steps: int
    """Steps of the whole run (T), over which `cosine-decay` runs."""
    rate: str = COSINE
    """`cosine` to 0 at `end` (RigL), `cosine-decay` to 0.005 at T (sparse_learning, ITOP, SViTE),
    or `constant` (the SET authors)."""

    def is_update(self, step: int) -> bool:
        return 0 < step < self.end and step % self.interval == 0

    def update_steps(self) -> range:
        return range(self.interval, self.end, self.interval)

    def fraction(self, step: int) -> float:
        """Share of the active entries to drop at an update step."""
        if self.rate == CONSTANT:
            return self.alpha
        if self.rate == COSINE_DECAY:
            return cosine_decay(self.alpha, step, self.total_steps)
        return cosine_fraction(self.alpha, step, self.end)

    def needs_dense_gradient(self, step: int, window: int = 1) -> bool:
        """Whether RigL collects the dense gradient at this step: the `window` steps up to each
        multiple of the interval. As in the official code the last window may have no update.
        """
        done = step - 1
        return done < self.end and self.interval - done % self.interval <= window
