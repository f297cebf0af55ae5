"""The compact initial allocation: Static never changes it, BARTER starts from it."""

from abc import ABC
from collections.abc import Mapping
from math import sqrt
from typing import Any, ClassVar

import torch
from torch import nn
from torch.optim import Optimizer

from methods.allocation import initial_units
from methods.base import MethodContext, SparseMethod, Topology
from methods.budget import UnitBudget, spread, unit_budget
from methods.compact import keep_in_layer, resize_layer
from methods.config import CompactConfig, Config
from methods.padding import padding_entries, strip_padding
from methods.units import UnitLayer, find_layers


class CompactMethod(SparseMethod, ABC):
    """A method whose tensors have the shape of the active units: exactly, or rounded up by zero
    channels where the context asks for it."""

    config_type: ClassVar[type[Config]] = CompactConfig
    config: CompactConfig

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        super().attach(model, optimizer, context)
        self._dense_parameters = self.active_parameters()
        shape = context.shape
        budget = unit_budget(shape, context.density)
        self._allocate(self.head_layers, spread(budget.heads, shape.layers))
        self._allocate(self.channel_layers, spread(budget.channels, shape.layers))

    def active_parameters(self) -> int:
        return super().active_parameters() - padding_entries(self.channel_layers)

    def padded_channels(self, topology: Topology) -> tuple[int, ...]:
        widths = zip(self.channel_layers, topology.channels_per_layer, strict=True)
        return tuple(layer.capacity(width) - width for layer, width in widths)

    def allowed_parameters(self) -> int:
        shape = self.context.shape
        dense = UnitBudget(shape.total_heads, shape.total_channels)
        saved = dense.parameters(shape) - unit_budget(shape, self.context.density).parameters(shape)
        return self._dense_parameters - saved

    def _allocate(self, layers: tuple[UnitLayer, ...], widths: tuple[int, ...]) -> None:
        kept = initial_units(layers, widths, self.config.initial_units, self.context.seed)
        for layer, units in zip(layers, kept, strict=True):
            dense_width = layer.width
            if len(units) == dense_width:
                continue
            keep_in_layer(layer, self.optimizer, units)
            if self.config.fan_in == "compact" and units:
                for cut, parameter in layer.cuts():
                    if cut.is_output:
                        with torch.no_grad():
                            parameter.mul_(sqrt(dense_width / len(units)))

    def state_dict(self) -> dict[str, Any]:
        topology = self.topology()
        return {
            "heads_per_layer": list(topology.heads_per_layer),
            "channels_per_layer": list(topology.channels_per_layer),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for layers, key in (
            (self.head_layers, "heads_per_layer"),
            (self.channel_layers, "channels_per_layer"),
        ):
            for layer, width in zip(layers, state[key], strict=True):
                if layer.width != width:
                    resize_layer(layer, self.optimizer, width)

    def export(self, model: nn.Module) -> nn.Module:
        exported = super().export(model)
        strip_padding(find_layers(exported)[1])
        return exported


class Static(CompactMethod):
    """The compact initial allocation, never changed (specification, section 8)."""

    name = "static"
