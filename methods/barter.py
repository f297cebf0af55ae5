"""BARTER: compact dynamic sparse training by transfers of units between layers.

Source: "BARTER: Compact Dynamic Sparse Training with Standard Dense Kernels", sections 3.2 to
3.4. Heads and channels are handled apart, each under its own fixed global budget. The variants
with randomised selection (section 8 of the specification) differ in their chooser alone.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer

from methods.base import (
    MethodContext,
    TopologyEvent,
    TopologyUpdate,
    UpdateOrder,
)
from methods.chance import torch_generator
from methods.compact import (
    Replaced,
    clone_in_layer,
    output_weights,
    remove_from_layer,
    split_noise,
)
from methods.config import BarterConfig, Config
from methods.optimizer_state import check_state
from methods.pool import UnitPool
from methods.schedule import (
    CHANNEL,
    HEAD,
    UNIT_TYPES,
    cooldown_steps,
    last_collecting_step,
    proposal_steps,
    transfer_count,
)
from methods.scores import ScoreCollector
from methods.selection import ByScore, Chooser, Skipped, Transfer
from methods.static import CompactMethod
from methods.units import UnitLayer


class _UnitTransfers:
    """All that BARTER keeps for one unit type: layers, schedule, observed and running scores."""

    def __init__(
        self,
        unit_type: str,
        layers: tuple[UnitLayer, ...],
        maximum: int,
        config: BarterConfig,
        t: int,
    ) -> None:
        self.unit_type, self.layers = unit_type, layers
        widths = [layer.width for layer in layers]
        count = transfer_count(unit_type, widths, maximum, config.transfer_multiplier)
        steps = proposal_steps(unit_type, count, t, config.window)
        self.proposals = Counter(steps)
        self.last_collecting_step = last_collecting_step(steps)
        self.collector = ScoreCollector(layers)
        self.pool = UnitPool(
            unit_type,
            widths,
            [maximum] * len(layers),
            cooldown_steps(unit_type, count, t, config.window),
            config.beta,
            like=self.collector.sums,
        )

    def collects(self, step: int) -> bool:
        return step <= self.last_collecting_step


class AbstractBarter(CompactMethod):
    """The method, but for the choice of receiver, parent and donor."""

    config_type: ClassVar[type[Config]] = BarterConfig
    config: BarterConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    is_dynamic = True
    update_order = UpdateOrder.AFTER_OPTIMIZER_STEP

    def chooser(self, unit_type: str, step: int, attempt: int) -> Chooser:
        """Who chooses at this attempt; `attempt` counts those of one step from 0."""
        return ByScore()

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        super().attach(model, optimizer, context)
        shape, t = context.shape, context.total_steps
        self._types = {
            HEAD: _UnitTransfers(HEAD, self.head_layers, shape.heads, self.config, t),
            CHANNEL: _UnitTransfers(CHANNEL, self.channel_layers, shape.channels, self.config, t),
        }
        self._steps_done = 0
        self._observe_from(1)

    def scheduled_transfers(self) -> Mapping[str, int]:
        return {name: units.proposals.total() for name, units in self._types.items()}

    def flags(self, step: int) -> tuple[str, ...]:
        collecting = any(units.collects(step) for units in self._types.values())
        update = any(step in units.proposals for units in self._types.values())
        return ("collecting",) * collecting + ("update",) * update

    def launch_key(self) -> Hashable | None:
        return tuple(units.collector.is_open for units in self._types.values())

    def backward_was_replayed(self) -> None:
        for units in self._types.values():
            units.collector.count_again()

    def after_backward(self, step: int, loss_scale: float | Tensor = 1.0) -> None:
        scaled = isinstance(loss_scale, Tensor) or loss_scale != 1.0
        for units in self._types.values():
            if units.collects(step):
                minibatch = units.collector.take(loss_scale, self.context.process_group)
                if minibatch is not None:
                    units.pool.observe(minibatch, scaled)

    def update_topology(self, step: int) -> TopologyUpdate:
        events: list[TopologyEvent] = []
        replaced: Replaced = {}
        for unit_type in UNIT_TYPES:
            units = self._types[unit_type]
            for attempt in range(units.proposals[step]):
                events.append(self._transfer(units, step, attempt, replaced))
        return TopologyUpdate(tuple(events), replaced)

    def after_step(self, step: int) -> None:
        if step == 1:
            # State without a rule for resizing must not wait until the first transfer to be found.
            layers = self.head_layers + self.channel_layers
            check_state(self.optimizer, (p for layer in layers for _, p in layer.cuts()))
        self._steps_done = step
        self._observe_from(step + 1)

    def _transfer(
        self, units: _UnitTransfers, step: int, attempt: int, replaced: Replaced
    ) -> TopologyEvent:
        chosen = units.pool.attempt(step, self.chooser(units.unit_type, step, attempt))
        if isinstance(chosen, Skipped):
            return TopologyEvent(units.unit_type, skip_reason=chosen.reason)
        changes = self._clone(units, chosen, step, attempt)
        changes |= remove_from_layer(
            units.layers[chosen.donor_layer], self.optimizer, chosen.donor_unit
        )
        for name, (old, new) in changes.items():
            replaced[name] = (replaced[name][0] if name in replaced else old, new)
        units.collector.reset()
        return TopologyEvent(
            units.unit_type,
            receiver_layer=chosen.receiver,
            parent_unit=chosen.parent,
            donor_layer=chosen.donor_layer,
            donor_unit=chosen.donor_unit,
            dropped=1,
            grown=1,
        )

    def _clone(self, units: _UnitTransfers, chosen: Transfer, step: int, attempt: int) -> Replaced:
        receiver = units.layers[chosen.receiver]
        output = output_weights(receiver, chosen.parent)
        generator = torch_generator(
            output.device, self.context.seed, "split noise", units.unit_type, step, attempt
        )
        noise = split_noise(output, self.config.noise_scale, generator)
        inherit = self.config.clone_state == "inherit"
        return clone_in_layer(receiver, self.optimizer, chosen.parent, noise, inherit)

    def _observe_from(self, step: int) -> None:
        """Observe exactly the unit types whose scores the coming step still needs."""
        for units in self._types.values():
            if units.collects(step) and not units.collector.is_open:
                units.collector.open()
            elif units.collector.is_open and not units.collects(step):
                units.collector.close()

    def state_tensors(self) -> tuple[Tensor, ...]:
        types = self._types.values()
        return tuple(t for units in types for t in (units.pool.scores, units.collector.sums))

    def state_dict(self) -> dict[str, Any]:
        pools = {name: units.pool.state_dict() for name, units in self._types.items()}
        return {**super().state_dict(), "steps_done": self._steps_done, "pools": pools}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for name, units in self._types.items():
            units.pool.load_state_dict(state["pools"][name])
            units.collector.reset()
        self._steps_done = state["steps_done"]
        self._observe_from(self._steps_done + 1)

    def export(self, model: nn.Module) -> nn.Module:
        observing = [units for units in self._types.values() if units.collector.is_open]
        for units in observing:
            units.collector.close()
        exported = super().export(model)
        for units in observing:
            units.collector.open()
        return exported


class Barter(AbstractBarter):
    """BARTER as published."""

    name = "barter"
