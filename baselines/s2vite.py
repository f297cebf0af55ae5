"""S2ViTE: structured sparse training of full-size tensors under masks over heads and channels.

Sources and exact semantics: baselines page, section 7. Every block has the same number of active
heads and of active channels, int(units x density) but at least one of each. Both stay as they are
but for ties between channels, which the published rule does not break. The model as a whole is
denser than that: output projections, biases and all outside the blocks have no mask.

The published rule lets a channel come back in the update that dropped it, and only such channels
have gradients to be judged by: as published, the channels of a block hardly ever change.
"""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from baselines.config import OFFICIAL
from baselines.s2vite_config import S2viteConfig
from baselines.s2vite_official import FullSizeMask, HeadNorms, read_counts
from baselines.s2vite_rules import (
    ExchangeRule,
    exchange_channels,
    exchange_count,
    exchange_excluding_dropped,
    exchange_heads,
)
from baselines.s2vite_scores import UpdateScores
from methods.allocation import initial_units
from methods.base import (
    GradientNeed,
    MethodContext,
    SparseMethod,
    Topology,
    TopologyEvent,
    TopologyUpdate,
    UpdateOrder,
)
from methods.budget import BudgetError
from methods.config import RANDOM, Config
from methods.invariant import AT_LEAST
from methods.masks import leaves_traces
from methods.schedule import CHANNEL, HEAD
from methods.unit_export import remove_inactive
from methods.unit_masks import UnitMask
from methods.units import UnitLayer

NOT_FINITE = "scores are not finite"


class AbstractS2vite(SparseMethod):
    """The method, but for which units an update drops and grows."""

    config_type: ClassVar[type[Config]] = S2viteConfig
    config: S2viteConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    is_dynamic = True
    update_order = UpdateOrder.AFTER_OPTIMIZER_STEP
    realisation = "masked"
    rules: ClassVar[Mapping[str, ExchangeRule]]
    """Unit type -> how a block's units are exchanged."""

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        """See `SparseMethod.attach`.

        Raises:
            BudgetError: density outside (0, 1].
        """
        if not 0 < context.density <= 1:
            raise BudgetError(f"density {context.density} is outside (0, 1]")
        self._masks: dict[str, UnitMask] = {}
        super().attach(model, optimizer, context)
        for unit_type, layers in ((HEAD, self.head_layers), (CHANNEL, self.channel_layers)):
            # In floating point as published: int(100 x 0.29) is 28.
            widths = [max(1, int(layer.width * context.density)) for layer in layers]
            kept = initial_units(layers, widths, RANDOM, context.seed)
            self._masks[unit_type] = self._new_mask(layers, kept)
        self._masked_at_start = sum(mask.masked_entries() for mask in self._masks.values())
        self._norms = HeadNorms(self.head_layers)
        self._scores = UpdateScores(self.head_layers, self.channel_layers)
        self._update_steps = self.config.update_steps(context.total_steps)
        self._steps_done = 0
        self._impose()
        self._observe_from(1)

    def _new_mask(self, layers: tuple[UnitLayer, ...], kept: list[list[int]]) -> UnitMask:
        if self._is_official:
            return FullSizeMask(layers, kept, self.context.process_group)
        return UnitMask(layers, kept)

    @property
    def _is_official(self) -> bool:
        return self.config.overhead == OFFICIAL

    def launch_key(self) -> Hashable | None:
        return None if self._is_official else (self._scores.collector.is_open,)

    def backward_was_replayed(self) -> None:
        self._scores.collector.count_again()

    def gradient_need(self, step: int) -> GradientNeed:
        """Dense where units grow by gradients, and wherever gradients of inactive units, which are
        never masked, live on in the optimizer's state (Adam): they move a unit that comes back."""
        if step in self._update_steps or leaves_traces(self.optimizer, momentum_is_masked=True):
            return GradientNeed.DENSE
        return GradientNeed.ACTIVE

    def flags(self, step: int) -> tuple[str, ...]:
        dense = self.gradient_need(step) is GradientNeed.DENSE
        return (
            ("collecting",) * self._observes(step)
            + ("update",) * (step in self._update_steps)
            + ("dense_gradient",) * dense
        )

    def after_backward(self, step: int, loss_scale: float | Tensor = 1.0) -> None:
        if step in self._update_steps:
            self._scores.read(loss_scale, self.context.process_group)
        elif self._is_official:
            self._scores.collector.take()

    def update_topology(self, step: int) -> TopologyUpdate:
        """One event per unit type and block. `dropped` and `grown` are the units whose mask
        differs afterwards: one that is dropped and grown again counts as neither.

        The host waits once, for these numbers: growth by threshold decides the width on the
        device, and the next update's counts depend on it.
        """
        if step not in self._update_steps:
            return TopologyUpdate()
        # As published: the optimizer's step is masked first, so that scores read masked weights.
        self._impose()
        rate = self.config.death_rate(step, self.context.total_steps)
        finite = self._scores.are_finite()
        reasons: dict[str, list[str | None]] = {}
        proposed: dict[str, Tensor] = {}
        for unit_type, mask in self._masks.items():
            rows = list(mask.active.unbind())
            reasons[unit_type] = [self._scores.skip_reason(mask, b) for b in range(len(rows))]
            for block, reason in enumerate(reasons[unit_type]):
                if reason is None:
                    scores, width = self._scores.of(mask, block), mask.widths[block]
                    count = exchange_count(rate, width)
                    new = self.rules[unit_type](*scores, rows[block], width, count)
                    rows[block] = torch.where(finite, new, rows[block])
            proposed[unit_type] = torch.stack(rows)
        return TopologyUpdate(self._adopt(proposed, reasons, finite))

    def _adopt(
        self,
        proposed: Mapping[str, Tensor],
        reasons: Mapping[str, list[str | None]],
        finite: Tensor,
    ) -> tuple[TopologyEvent, ...]:
        """Make the proposed masks the present ones, with the one copy to the host."""
        counts = []
        for unit_type, mask in self._masks.items():
            old, new = mask.active, proposed[unit_type]
            counts.append(torch.stack([(old & ~new).sum(1), (new & ~old).sum(1)]))
        packed = torch.cat([torch.cat(counts).flatten(), finite.view(1)]).cpu().numpy()
        changes = packed[:-1].reshape(len(counts), 2, -1)
        events = []
        for (dropped, grown), (unit_type, mask) in zip(changes, self._masks.items(), strict=True):
            mask.set(proposed[unit_type], [int(n) for n in mask.widths + grown - dropped])
            for block, reason in enumerate(reasons[unit_type]):
                skip = reason or (None if packed[-1] else NOT_FINITE)
                events.append(
                    TopologyEvent(
                        unit_type,
                        skip_reason=skip,
                        receiver_layer=block,
                        donor_layer=block,
                        dropped=int(dropped[block]),
                        grown=int(grown[block]),
                    )
                )
        if self._is_official:
            read_counts(list(self._masks.values()))
        self._scores.forget()
        return tuple(events)

    def after_step(self, step: int) -> None:
        self._impose()
        self._steps_done = step
        self._observe_from(step + 1)

    def _impose(self) -> None:
        for mask in self._masks.values():
            mask.impose(self.optimizer)

    def _observes(self, step: int) -> bool:
        return step in self._update_steps or self._is_official

    def _observe_from(self, step: int) -> None:
        """Observe heads exactly where the coming step ends in an update."""
        self._stop_observing()
        if self._observes(step):
            self._scores.collector.open()
        if self._is_official:
            self._norms.open()

    def _stop_observing(self) -> None:
        self._scores.collector.close()
        self._norms.close()

    def topology(self) -> Topology:
        if not self._masks:
            return super().topology()
        return Topology(tuple(self._masks[HEAD].widths), tuple(self._masks[CHANNEL].widths))

    def active_parameters(self) -> int:
        masked = sum(mask.masked_entries() for mask in self._masks.values())
        return super().active_parameters() - masked

    def allowed_parameters(self) -> int:
        return super().allowed_parameters() - self._masked_at_start

    def masks(self) -> Mapping[str, Tensor]:
        return {name: mask for units in self._masks.values() for name, mask in units.full_masks()}

    def state_tensors(self) -> tuple[Tensor, ...]:
        masks = [tensor for mask in self._masks.values() for tensor in mask.tensors()]
        return (*masks, self._scores.collector.sums)

    def state_dict(self) -> dict[str, Any]:
        masks = {unit_type: mask.active.clone() for unit_type, mask in self._masks.items()}
        return {"masks": masks, "steps_done": self._steps_done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for unit_type, mask in self._masks.items():
            active = state["masks"][unit_type].to(mask.active.device, copy=True)
            mask.set(active, active.sum(1).tolist())
        self._steps_done = state["steps_done"]
        self._scores.forget()
        self._scores.collector.reset()
        self._observe_from(self._steps_done + 1)

    def export(self, model: nn.Module) -> nn.Module:
        """A compact copy without the inactive units, equal in evaluation to rounding."""
        self._stop_observing()
        exported = super().export(model)
        self._observe_from(self._steps_done + 1)
        remove_inactive(exported, self._masks[HEAD].kept(), self._masks[CHANNEL].kept())
        return exported


class S2vite(AbstractS2vite):
    """S2ViTE as its published code runs. All channels that tie for the last place grow, so that
    its number of active parameters may rise."""

    name = "s2vite"
    budget_invariant = AT_LEAST
    rules = {HEAD: exchange_heads, CHANNEL: exchange_channels}  # noqa: RUF012


class S2viteExcludeDropped(AbstractS2vite):
    """S2ViTE whose updates never regrow what they have just dropped: channels move (chosen)."""

    name = "s2vite-exclude-dropped"
    rules = {HEAD: exchange_excluding_dropped, CHANNEL: exchange_excluding_dropped}  # noqa: RUF012
