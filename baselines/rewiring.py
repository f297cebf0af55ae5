"""What all methods that drop and grow single weights share: when, in which order, and what an
update does to weights, gradients and optimizer state.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from baselines.config import RewiringConfig
from baselines.schedules import UpdateSchedule, fitted_interval
from methods.base import (
    GradientNeed,
    MethodContext,
    TopologyEvent,
    TopologyUpdate,
    UpdateOrder,
)
from methods.config import Config
from methods.masks import MaskedMethod, SparseWeight, leaves_traces


class Rewiring(MaskedMethod, ABC):
    """Drops and grows weights at intervals; subclasses say which."""

    is_dynamic = True
    config_type: ClassVar[type[Config]] = RewiringConfig
    config: RewiringConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    schedule: UpdateSchedule

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.update_order = UpdateOrder(self.config.update_order)

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        super().bind(weights, optimizer, context)
        config, total = self.config, context.total_steps
        end = int(config.stop * total)
        interval = config.interval or context.steps_per_epoch or max(1, (total - 1) // 10)
        self.schedule = UpdateSchedule(
            fitted_interval(interval, end, config.min_updates),
            end,
            config.alpha,
            total,
            config.rate,
        )

    def gradient_need(self, step: int) -> GradientNeed:
        """Dense where inactive entries' gradients are left to feed the optimizer's state."""
        if self.masks_gradients or not leaves_traces(self.optimizer, self.masks_momentum):
            return GradientNeed.ACTIVE
        return GradientNeed.DENSE

    def flags(self, step: int) -> tuple[str, ...]:
        update = ("update",) if self.schedule.is_update(step) else ()
        dense = self.gradient_need(step) is GradientNeed.DENSE
        return update + (("dense_gradient",) if dense else ())

    def replaces_optimizer_step(self, step: int) -> bool:
        replaces = self.update_order is UpdateOrder.REPLACES_OPTIMIZER_STEP
        return replaces and self.schedule.is_update(step)

    @torch.no_grad()
    def update_topology(self, step: int) -> TopologyUpdate:
        if not self.schedule.is_update(step):
            return TopologyUpdate()
        # The optimizer may have moved inactive entries (stale moments): they must not compete.
        self.apply_masks()
        trained = [weight for weight in self.weights if weight.is_trained]
        changes = self.rewire(trained, step) if trained else []
        if self.masks_gradients:
            self.mask_gradients()
        self.apply_masks()
        self._masked_at = step
        return TopologyUpdate(
            tuple(
                TopologyEvent(
                    unit_type="weight",
                    receiver_layer=weight.layer,
                    donor_layer=weight.layer,
                    dropped=dropped,
                    grown=grown,
                )
                for weight, (dropped, grown) in zip(trained, changes, strict=True)
            )
        )

    @abstractmethod
    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        """Give every trained weight its new mask (`set_mask`).

        Returns:
            Per weight, the entries dropped and grown as the rule counts them on the host; where
            the true number depends on values that only the device knows, the nominal one.
        """

    def set_mask(self, weight: SparseWeight, mask: Tensor) -> None:
        """Replace the mask in place; moments of newly grown entries are reset if configured."""
        if self.config.reset_grown_state:
            self.reset_state(weight, mask & ~weight.mask)
        weight.mask.copy_(mask)
