"""How sparse_learning hands out what it pruned, on host numbers (baselines page, section 5.4).

Pure functions and one running number; the layers are those that take part in the update.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor

_MAX_ROUNDS = 1000
_FULLEST = 0.99
"""Share of a layer's vacancies that regrowth may fill."""


def layer_rate(rate: float, active: int, size: int, share: float, layers: int) -> float:
    """The prune rate of one layer: over 80 % dense layers with an above-average share lose at
    most their sparsity."""
    sparsity = (size - active) / size
    if sparsity < 0.2 and share > 1 / layers:
        return min(sparsity, rate)
    return rate


def shares_of(values: Sequence[float]) -> list[float]:
    """Normalised to 1; all equal where there is nothing to divide by."""
    total = sum(values)
    return [value / total if total else 1 / len(values) for value in values]


def regrow_counts(
    shares: Sequence[float], removed: float, adjusted_growth: float, vacancies: Sequence[int]
) -> list[int]:
    """Entries to grow in each layer: its share of what was removed, capped by 99 % of its
    vacancies, the excess spread evenly over all layers until none is left.

    A negative total is clamped to 0 per layer (chosen).
    """
    caps = [_FULLEST * vacancy for vacancy in vacancies]
    counts = [float(ceil(share * (removed + adjusted_growth))) for share in shares]
    mean_residual = 0.0
    for _ in range(_MAX_ROUNDS):
        excess = 0.0
        for layer, cap in enumerate(caps):
            counts[layer] += mean_residual
            if counts[layer] > cap:
                excess += counts[layer] - cap
                counts[layer] = cap
        mean_residual = excess / len(counts)
        if excess <= 0:
            break
    return [max(0, floor(count)) for count in counts]


@dataclass
class AdjustedGrowth:
    """Entries that the next update grows beyond what it removes, to track the baseline."""

    value: float = 0.0
    deviations: list[float] = field(default_factory=list)
    """Baseline minus actual total after each update so far."""

    def note(self, deviation: float) -> None:
        """After an update: baseline (density times all entries) minus the new total."""
        self.deviations.append(deviation)
        mean = sum(self.deviations) / len(self.deviations)
        self.value = 0.25 * self.value + 0.75 * deviation + mean
