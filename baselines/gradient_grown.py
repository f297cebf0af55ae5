"""RigL's dense gradients, shared with SRigL: seen at backward, masked, kept for the update
(baselines page, section 3, points 6 and 10).
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from baselines.config import OFFICIAL, GradientGrownConfig
from baselines.overhead import Overhead
from baselines.rewiring import Rewiring
from methods.base import GradientNeed, MethodContext, TopologyUpdate
from methods.config import Config
from methods.masks import SparseWeight


class GradientGrown(Rewiring, ABC):
    """Grows where the dense gradient is largest; collects it only shortly before an update."""

    config_type: ClassVar[type[Config]] = GradientGrownConfig
    config: GradientGrownConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    overhead: Overhead = Overhead()

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        super().bind(weights, optimizer, context)
        self._dense_gradients: dict[str, Tensor] = {}
        self.overhead.close()
        is_official = self.config.overhead == OFFICIAL
        self.overhead = self.official_overhead() if is_official else Overhead()
        self.overhead.expect(self._collects(1))

    @abstractmethod
    def official_overhead(self) -> Overhead:
        """What the published code does beyond the decisions, for the weights now bound."""

    def launch_key(self) -> Hashable | None:
        return None if self.config.overhead == OFFICIAL else super().launch_key()

    def gradient_need(self, step: int) -> GradientNeed:
        return GradientNeed.DENSE if self._collects(step) else super().gradient_need(step)

    def _collects(self, step: int) -> bool:
        return self.schedule.needs_dense_gradient(step, self.config.dense_gradient_steps)

    @torch.no_grad()
    def after_backward(self, step: int, loss_scale: float | Tensor = 1.0) -> None:
        if self._collects(step):
            self._collect(loss_scale)
        else:
            self._dense_gradients.clear()
        if not self.overhead.masks_in_backward:
            super().after_backward(step, loss_scale)

    def _collect(self, loss_scale: float | Tensor) -> None:
        divisor = self.config.dense_gradient_steps * loss_scale
        for weight in self.weights:
            gradient = self.overhead.take_dense_gradient(weight)
            if gradient is None:
                continue
            share = gradient / divisor
            if weight.name in self._dense_gradients:
                self._dense_gradients[weight.name].add_(share)
            else:
                self._dense_gradients[weight.name] = share

    def dense_gradient(self, weight: SparseWeight) -> Tensor:
        """Mean dense gradient of the last steps, shape of the weight; valid in an update."""
        return self._dense_gradients[weight.name]

    def update_topology(self, step: int) -> TopologyUpdate:
        update = super().update_topology(step)
        if self.schedule.is_update(step):
            self.overhead.after_update()
            self._dense_gradients.clear()
        return update

    def set_mask(self, weight: SparseWeight, mask: Tensor) -> None:
        self.overhead.update(weight, mask, self.dense_gradient(weight))
        super().set_mask(weight, mask)

    def apply_masks(self) -> None:
        self.overhead.before_masks()
        super().apply_masks()

    def impose(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.overhead.multiply(pairs)

    def after_step(self, step: int) -> None:
        super().after_step(step)
        self.overhead.expect(self._collects(step + 1))

    def state_tensors(self) -> tuple[Tensor, ...]:
        dense = tuple(self._dense_gradients.values())
        return super().state_tensors() + dense + self.overhead.tensors()

    def state_dict(self) -> dict[str, Any]:
        gradients = {name: tensor.clone() for name, tensor in self._dense_gradients.items()}
        return super().state_dict() | {"dense_gradients": gradients} | self.overhead.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        saved = state["dense_gradients"]
        self._dense_gradients = {
            weight.name: saved[weight.name].to(weight.parameter.device, copy=True)
            for weight in self.weights
            if weight.name in saved
        }
        self.overhead.load_state_dict(state)
