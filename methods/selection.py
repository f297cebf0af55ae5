"""Receiver, clone parent and donor of one transfer (specification, section 2, rules 1 to 4).

Pure functions of scores in float64 on the host. Ties go to the lowest layer index, then the
lowest unit index (chosen), so a selection never depends on the order of a sort.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = Sequence[NDArray[np.float64]]
"""Per layer, one score per active unit."""

Units = NDArray[np.int64]
"""[units, 2]: layer and index in it. Thousands, so no list."""


@dataclass(frozen=True)
class Transfer:
    """Indices before the transfer; the copy becomes the receiver's last unit."""

    receiver: int
    parent: int
    donor_layer: int
    donor_unit: int


@dataclass(frozen=True)
class Skipped:
    """A scheduled transfer that could not be made."""

    reason: str


@dataclass(frozen=True)
class Candidates:
    """What a selection may look at, for one unit type."""

    prune_scores: Scores
    growth_scores: Scores
    in_cooldown: Sequence[NDArray[np.bool_]]
    initial_widths: Sequence[int]
    max_widths: Sequence[int]
    min_width: int

    def width(self, layer: int) -> int:
        return len(self.prune_scores[layer])

    def receivers(self) -> list[int]:
        """Layers that have a unit to clone and room for one more."""
        layers = range(len(self.prune_scores))
        return [layer for layer in layers if 0 < self.width(layer) < self.max_widths[layer]]

    def donors(self, receiver: int) -> Units:
        """Units outside the receiver that are free and can be spared, in index order."""
        found = [np.empty((0, 2), np.int64)]
        for layer, protected in enumerate(self.in_cooldown):
            if layer != receiver and self.width(layer) > self.min_width:
                units = np.flatnonzero(~protected)
                found.append(np.column_stack([np.full_like(units, layer), units]))
        return np.concatenate(found)

    def corrected_growth(self, layer: int) -> float:
        """R_l = (n_l0 / n_l) mean_i S_li: growth demand, corrected for units gained so far."""
        ratio = self.initial_widths[layer] / self.width(layer)
        return ratio * float(np.mean(self.growth_scores[layer]))


class Chooser(ABC):
    """The three choices of a transfer; variants of BARTER override the smallest of them."""

    @abstractmethod
    def receiver(self, candidates: Candidates, eligible: Sequence[int]) -> int: ...

    @abstractmethod
    def parent(self, candidates: Candidates, receiver: int) -> int: ...

    @abstractmethod
    def donor(self, candidates: Candidates, eligible: Units) -> int:
        """Its row among the eligible ones."""
        ...


class ByScore(Chooser):
    """BARTER's rule: largest growth demand receives, lowest pruning score gives."""

    def receiver(self, candidates: Candidates, eligible: Sequence[int]) -> int:
        return max(eligible, key=candidates.corrected_growth)  # the first of equals

    def parent(self, candidates: Candidates, receiver: int) -> int:
        return int(np.argmax(candidates.growth_scores[receiver]))

    def donor(self, candidates: Candidates, eligible: Units) -> int:
        layers, units = eligible.T
        starts = np.cumsum([0, *map(len, candidates.prune_scores)])
        scores = np.concatenate(candidates.prune_scores)[starts[layers] + units]
        return int(scores.argmin())  # the first of equals


def select_transfer(candidates: Candidates, chooser: Chooser) -> Transfer | Skipped:
    """One transfer, or why there is none."""
    receivers = candidates.receivers()
    if not receivers:
        return Skipped("no eligible receiver")
    receiver = chooser.receiver(candidates, receivers)
    donors = candidates.donors(receiver)
    if not len(donors):
        return Skipped("no eligible donor")
    donor_layer, donor_unit = donors[chooser.donor(candidates, donors)].tolist()
    return Transfer(receiver, chooser.parent(candidates, receiver), donor_layer, donor_unit)
