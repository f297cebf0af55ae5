"""SNFS (sparse momentum): drop by magnitude, grow by momentum, move budget between matrices
(baselines page, section 5).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from baselines.config import SnfsConfig
from baselines.drop_grow import grow_largest
from baselines.redistribution import Redistributing
from baselines.sparse_learning import shares_of
from methods.config import Config
from methods.invariant import tracks
from methods.masks import MOMENTUM, SparseWeight

_EPS = 1e-8
_DRIFT = 0.01
"""Share of the allowed parameters by which the total may be off: regrowth is rounded, capped and
corrected only afterwards (stated by us from what we see; the official code states none)."""


class Snfs(Redistributing):
    """Sparse networks from scratch.

    Gradients and momentum stay dense at every step. An update copies two numbers per matrix to the
    host, in one transfer: redistribution is an iteration over them. All counts follow from there.
    """

    name = "snfs"
    config_type: ClassVar[type[Config]] = SnfsConfig
    config: SnfsConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    masks_gradients = False
    masks_momentum = False
    budget_invariant = tracks(_DRIFT)

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        plan = self.plan(weights, step)
        grown = []
        for weight, kept, removed, count in zip(
            weights, plan.kept, plan.removed, plan.counts, strict=True
        ):
            self.set_mask(weight, grow_largest(self.momentum(weight), kept, count, weight.mask))
            left = weight.active - removed
            grown.append(min(count, weight.mask.numel() - left))
            weight.active = left + grown[-1]
        self.note_total()
        return list(zip(plan.removed, grown, strict=True))

    def momentum(self, weight: SparseWeight) -> Tensor:
        """|momentum| of every entry: SGD's buffer, or Adam's m / (sqrt(v) + 1e-8) without bias
        correction.

        Raises:
            ValueError: the optimizer keeps neither.
        """
        state = self.optimizer.state.get(weight.parameter, {})
        if state.get(MOMENTUM) is not None:
            return state[MOMENTUM].abs()
        if "exp_avg" not in state:
            raise ValueError("SNFS needs an optimizer with momentum: SGD with momentum, or Adam")
        return (state["exp_avg"] / (state["exp_avg_sq"].sqrt() + _EPS)).abs()

    def shares(self, weights: Sequence[SparseWeight]) -> tuple[list[float], list[int]]:
        """By mean |momentum| of active entries, or by size. One copy to the host; counts are exact
        in float32 up to 2^24 entries."""
        sums = [(self.momentum(w) * w.mask).sum() for w in weights]
        nonzero = [(w.parameter != 0).sum().to(s) for w, s in zip(weights, sums, strict=True)]
        totals, alive = torch.stack([torch.stack(sums), torch.stack(nonzero)]).tolist()
        if self.config.redistribution == "size":
            values = [float(weight.mask.numel()) for weight in weights]
        else:
            values = [
                total / max(1, weight.active) for total, weight in zip(totals, weights, strict=True)
            ]
        return shares_of(values), [int(count) for count in alive]
