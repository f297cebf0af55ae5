"""SET: drop the smallest weights, grow at random (baselines page, section 6)."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from baselines.config import SetConfig
from baselines.drop_grow import grow_bernoulli
from baselines.exchange import Exchange
from baselines.redistribution import Redistributing
from baselines.sparse_learning import shares_of
from methods.chance import torch_generator
from methods.config import Config
from methods.invariant import tracks
from methods.masks import SparseWeight

_DRIFT = 0.05
"""Share of the allowed parameters by which the total may be off where each candidate grows with a
probability (stated by us from what we see; `itop` has nothing that pulls it back)."""


class Set(Exchange, Redistributing):
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
        if self.config.rule in ("itop", "sparse-learning"):
            self.budget_invariant = tracks(_DRIFT)

    @property
    def rule(self) -> str:
        return self.config.rule

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        if not self.counts_known:
            self.read_counts()
        if self.rule != "sparse-learning":
            return super().rewire(weights, step)
        if step > self.schedule.interval:
            self.note_total()
        plan = self.plan(weights, step)
        for weight, kept, count in zip(weights, plan.kept, plan.counts, strict=True):
            self.set_mask(weight, self._grow_bernoulli(weight, kept, count, step))
        return list(zip(plan.removed, plan.counts, strict=True))

    def growth_scores(self, weight: SparseWeight, step: int) -> Tensor:
        """A random order of all entries."""
        generator = self._generator(weight, step)
        size, device = weight.mask.numel(), weight.mask.device
        order = torch.randperm(size, generator=generator, device=device)
        return order.view(weight.mask.shape)

    def grow(self, weight: SparseWeight, kept: Tensor, count: int | Tensor, step: int) -> Tensor:
        if self.rule != "itop":
            return super().grow(weight, kept, count, step)
        return self._grow_bernoulli(weight, kept, count, step)

    def shares(self, weights: Sequence[SparseWeight]) -> tuple[list[float], list[int]]:
        """By size. A rate of 0 is taken to drop nothing, so that no count need be read."""
        sizes = [float(weight.mask.numel()) for weight in weights]
        return shares_of(sizes), [weight.active for weight in weights]

    def _grow_bernoulli(
        self, weight: SparseWeight, kept: Tensor, count: int | Tensor, step: int
    ) -> Tensor:
        self.counts_known = False
        generator = self._generator(weight, step)
        draws = torch.rand(kept.shape, generator=generator, device=kept.device)
        return grow_bernoulli(draws, kept, count)

    def _generator(self, weight: SparseWeight, step: int) -> torch.Generator:
        device, seed = weight.mask.device, self.context.seed
        return torch_generator(device, seed, "set growth", weight.name, step)
