"""What RigL and SET have in common: drop small weights, grow others in the same matrix.

They differ in the growth score alone (baselines page, sections 3 and 6).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from baselines.drop_grow import (
    Drop,
    DropRule,
    drop_by_sign,
    drop_smallest,
    drop_to_threshold,
    grow_largest,
)
from baselines.rewiring import Rewiring
from methods.masks import SparseWeight

EXACT_RULES: dict[str, DropRule] = {
    "exact": drop_smallest,
    "condensed-sparsity": drop_smallest,
    "nollied": drop_smallest,
    "itop": drop_to_threshold,
    "svite": drop_to_threshold,
    "set-authors": drop_by_sign,
}
"""What each rule drops, for the rules that grow as many entries as went."""


class Exchange(Rewiring, ABC):
    """Per matrix: the smallest weights go, as many entries of largest growth score come."""

    leaves_full_matrices: bool = False
    """Whether matrices without a zero keep all their entries (SViTE)."""

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        changes = []
        for weight in weights:
            drop = self.drop(weight, step)
            self.set_mask(weight, self.grow(weight, drop.kept, drop.dropped, step))
            changes.append((drop.nominal, drop.nominal))
        return changes

    def drop(self, weight: SparseWeight, step: int) -> Drop:
        """What is left of the mask before anything grows."""
        if self.leaves_full_matrices and weight.active == weight.mask.numel():
            return Drop(weight.mask, 0, 0)
        fraction = self.schedule.fraction(step)
        return EXACT_RULES[self.rule](weight.parameter, weight.mask, weight.active, fraction)

    @property
    @abstractmethod
    def rule(self) -> str:
        """The official variant."""

    def grow(self, weight: SparseWeight, kept: Tensor, count: int | Tensor, step: int) -> Tensor:
        """The new mask: as many active entries as before."""
        return grow_largest(self.growth_scores(weight, step), kept, count, weight.mask)

    @abstractmethod
    def growth_scores(self, weight: SparseWeight, step: int) -> Tensor:
        """Scores from 0 up, shape of the weight; the largest outside the kept entries grow."""
