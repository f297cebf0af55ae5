"""An update of sparse_learning's `Masking`: every matrix drops, and what all of them lost is handed
out anew (baselines page, section 5.4). SNFS hands it out by momentum, its SET by size.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from baselines.drop_grow import drop_smallest_ceil
from baselines.rewiring import Rewiring
from baselines.sparse_learning import AdjustedGrowth, layer_rate, regrow_counts
from methods.base import MethodContext
from methods.masks import SparseWeight


@dataclass(frozen=True)
class Plan:
    """What an update drops and how much it grows, per matrix; numbers are the host's."""

    shares: list[float]
    rates: list[float]
    kept: list[Tensor]
    """Masks after dropping."""
    removed: list[int]
    counts: list[int]
    """Entries to grow."""


class Redistributing(Rewiring, ABC):
    """A method that moves budget between matrices; its total tracks the density."""

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        super().bind(weights, optimizer, context)
        self.adjusted = AdjustedGrowth()

    @property
    def baseline(self) -> float:
        """Active entries that the density asks for."""
        return self.context.density * sum(weight.mask.numel() for weight in self.weights)

    def note_total(self) -> None:
        """After an update, with all counts known: correct the next one's growth."""
        self.adjusted.note(self.baseline - sum(weight.active for weight in self.weights))

    @abstractmethod
    def shares(self, weights: Sequence[SparseWeight]) -> tuple[list[float], list[int]]:
        """Each matrix's share of what grows, and its active entries that are not exactly 0."""

    def plan(self, weights: Sequence[SparseWeight], step: int) -> Plan:
        """Drop in every matrix and share out the regrowth; changes nothing."""
        shares, nonzero = self.shares(weights)
        base, rates, kept, removed, vacancies = self.schedule.fraction(step), [], [], [], []
        for weight, share, alive in zip(weights, shares, nonzero, strict=True):
            size = weight.mask.numel()
            rate = layer_rate(base, weight.active, size, share, len(weights))
            drop = drop_smallest_ceil(weight.parameter, weight.mask, weight.active, rate)
            rates.append(rate)
            kept.append(drop.kept)
            # A rate of 0 drops exact zeros, whose number came with the shares.
            removed.append(drop.nominal or weight.active - alive)
            vacancies.append(size - weight.active + drop.nominal)
        counts = regrow_counts(shares, sum(removed), self.adjusted.value, vacancies)
        return Plan(shares, rates, kept, removed, counts)

    def state_dict(self) -> dict[str, Any]:
        adjusted = {"value": self.adjusted.value, "deviations": list(self.adjusted.deviations)}
        return super().state_dict() | {"adjusted_growth": adjusted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state["adjusted_growth"]
        self.adjusted = AdjustedGrowth(saved["value"], list(saved["deviations"]))
