"""SET: drop the smallest weights, grow at random (baselines page, section 6)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from baselines.config import SetConfig
from baselines.drop_grow import drop_smallest_ceil, grow_bernoulli
from baselines.exchange import Exchange
from baselines.sparse_learning import AdjustedGrowth, layer_rate, regrow_counts, shares_of
from methods.base import MethodContext
from methods.chance import torch_generator
from methods.config import Config
from methods.masks import SparseWeight


class Set(Exchange):
    """RigL's exchange with a random growth score; official variants by `rule`.

    `itop` and `sparse-learning` grow each candidate with a probability: the host then learns the
    counts in one transfer at the next update, which the default rule does not need.
    """

    name = "set"
    config_type: ClassVar[type[Config]] = SetConfig
    config: SetConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.masks_gradients = self.config.rule in ("exact", "set-authors")
        self.masks_momentum = self.config.rule != "sparse-learning"

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        super().bind(weights, optimizer, context)
        self.adjusted = AdjustedGrowth()

    @property
    def rule(self) -> str:
        return self.config.rule

    def growth_scores(self, weight: SparseWeight, step: int) -> Tensor:
        """A random order of all entries."""
        generator = self._generator(weight, step)
        device, size = weight.mask.device, weight.mask.numel()
        order = torch.randperm(size, generator=generator, device=device, dtype=torch.int64)
        return order.view(weight.mask.shape)

    def grow(self, weight: SparseWeight, kept: Tensor, count: int | Tensor, step: int) -> Tensor:
        if self.rule != "itop":
            return super().grow(weight, kept, count, step)
        return self._grow_bernoulli(weight, kept, count, step)

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        if not self.counts_known:
            self.read_counts()
        if self.rule == "sparse-learning":
            return self._redistribute(weights, step)
        return super().rewire(weights, step)

    def _redistribute(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        """What all matrices lost is handed out by size (sparse_learning's redistribution none)."""
        if step > self.schedule.interval:
            self.adjusted.note(self.baseline - sum(weight.active for weight in self.weights))
        shares = shares_of([float(weight.mask.numel()) for weight in weights])
        rate, drops, vacancies = self.schedule.fraction(step), [], []
        for weight, share in zip(weights, shares, strict=True):
            size = weight.mask.numel()
            own = layer_rate(rate, weight.active, size, share, len(weights))
            drop = drop_smallest_ceil(weight.parameter, weight.mask, weight.active, own)
            drops.append(drop)
            vacancies.append(size - weight.active + drop.nominal)
        removed = [drop.nominal for drop in drops]
        counts = regrow_counts(shares, sum(removed), self.adjusted.value, vacancies)
        for weight, drop, count in zip(weights, drops, counts, strict=True):
            self.set_mask(weight, self._grow_bernoulli(weight, drop.kept, count, step))
        return list(zip(removed, counts, strict=True))

    @property
    def baseline(self) -> float:
        """Active entries that the density asks for."""
        return self.context.density * sum(weight.mask.numel() for weight in self.weights)

    def _grow_bernoulli(
        self, weight: SparseWeight, kept: Tensor, count: float | Tensor, step: int
    ) -> Tensor:
        self.counts_known = False
        draws = torch.rand(
            weight.mask.shape, generator=self._generator(weight, step), device=kept.device
        )
        return grow_bernoulli(draws, kept, count)

    def _generator(self, weight: SparseWeight, step: int) -> torch.Generator:
        return torch_generator(
            weight.mask.device, self.context.seed, "set growth", weight.name, step
        )

    def state_dict(self) -> dict[str, Any]:
        adjusted = {"value": self.adjusted.value, "deviations": list(self.adjusted.deviations)}
        return super().state_dict() | {"adjusted_growth": adjusted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state["adjusted_growth"]
        self.adjusted = AdjustedGrowth(saved["value"], list(saved["deviations"]))
