"""SNFS (sparse momentum): drop by magnitude, grow by momentum, move budget between matrices
(baselines page, section 5).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from baselines.config import SnfsConfig
from baselines.drop_grow import drop_smallest_ceil, grow_largest
from baselines.rewiring import Rewiring
from baselines.sparse_learning import AdjustedGrowth, layer_rate, regrow_counts, shares_of
from methods.base import MethodContext
from methods.config import Config
from methods.masks import MOMENTUM, SparseWeight

_EPS = 1e-8


class Snfs(Rewiring):
    """Sparse networks from scratch.

    Gradients and momentum stay dense at every step. An update copies two numbers per matrix to the
    host, in one transfer: redistribution is an iteration over them. All counts follow from there.
    """

    name = "snfs"
    config_type: ClassVar[type[Config]] = SnfsConfig
    config: SnfsConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    masks_gradients = False
    masks_momentum = False

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        super().bind(weights, optimizer, context)
        self.adjusted = AdjustedGrowth()

    def momentum(self, weight: SparseWeight) -> Tensor:
        """|momentum| of every entry: SGD's buffer, or Adam's m / (sqrt(v) + 1e-8) without bias
        correction.

        Raises:
            ValueError: the optimizer keeps neither.
        """
        state = self.optimizer.state[weight.parameter]
        if state.get(MOMENTUM) is not None:
            return state[MOMENTUM].abs()
        if "exp_avg" not in state:
            raise ValueError("SNFS needs an optimizer with momentum: SGD with momentum, or Adam")
        return (state["exp_avg"] / (state["exp_avg_sq"].sqrt() + _EPS)).abs()

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        momenta = [self.momentum(weight) for weight in weights]
        shares, nonzero = self._shares(weights, momenta)
        rate, kept, removed, vacancies = self.schedule.fraction(step), [], [], []
        for weight, share, alive in zip(weights, shares, nonzero, strict=True):
            size = weight.mask.numel()
            own = layer_rate(rate, weight.active, size, share, len(weights))
            drop = drop_smallest_ceil(weight.parameter, weight.mask, weight.active, own)
            kept.append(drop.kept)
            # A rate of 0 drops exact zeros, whose number came with the shares.
            removed.append(drop.nominal or weight.active - alive)
            vacancies.append(size - weight.active + drop.nominal)
        counts = regrow_counts(shares, sum(removed), self.adjusted.value, vacancies)
        grown = []
        for weight, momentum, mask, gone, count in zip(
            weights, momenta, kept, removed, counts, strict=True
        ):
            self.set_mask(weight, grow_largest(momentum, mask, count, weight.mask))
            left = weight.active - gone
            grown.append(min(count, weight.mask.numel() - left))
            weight.active = left + grown[-1]
        self.adjusted.note(self.baseline - sum(weight.active for weight in self.weights))
        return list(zip(removed, grown, strict=True))

    @property
    def baseline(self) -> float:
        """Active entries that the density asks for."""
        return self.context.density * sum(weight.mask.numel() for weight in self.weights)

    def _shares(
        self, weights: Sequence[SparseWeight], momenta: Sequence[Tensor]
    ) -> tuple[list[float], list[int]]:
        """Redistribution shares, and the active entries that are not exactly 0 (counts are
        exact in float32 up to 2^24 entries)."""
        sums = [(m * w.mask).sum() for m, w in zip(momenta, weights, strict=True)]
        nonzero = [(w.parameter != 0).sum().to(s) for w, s in zip(weights, sums, strict=True)]
        totals, alive = torch.stack([torch.stack(sums), torch.stack(nonzero)]).tolist()
        if self.config.redistribution == "size":
            values = [float(weight.mask.numel()) for weight in weights]
        else:
            values = [
                total / max(1, weight.active) for total, weight in zip(totals, weights, strict=True)
            ]
        return shares_of(values), [int(count) for count in alive]

    def state_dict(self) -> dict[str, Any]:
        adjusted = {"value": self.adjusted.value, "deviations": list(self.adjusted.deviations)}
        return super().state_dict() | {"adjusted_growth": adjusted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state["adjusted_growth"]
        self.adjusted = AdjustedGrowth(saved["value"], list(saved["deviations"]))
