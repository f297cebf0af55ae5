"""Full-size tensors whose inactive heads and channels are held at zero.

Masked are the weights that produce a unit's value and, of a channel, also those that read it: the
rows of qkv and fc1 and the columns of fc2 (baselines page, section 7, item 1). The output
projection and all biases stay dense.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from methods.schedule import CHANNEL, HEAD
from methods.units import UnitLayer, UnitSlice

MASKED = {HEAD: ("qkv.weight",), CHANNEL: ("fc1.weight", "fc2.weight")}


def masked_cuts(layer: UnitLayer) -> Iterator[tuple[UnitSlice, nn.Parameter]]:
    """The layer's masked parameters and how they are cut into units."""
    for cut, parameter in layer.cuts():
        if cut.parameter in MASKED[layer.unit_type]:
            yield cut, parameter


def unit_l1(layer: UnitLayer, read: Callable[[nn.Parameter], Tensor]) -> Tensor:
    """L1 norm of each unit over the masked parameters, [units]; biases do not count.

    Args:
        read: the tensor to measure in a parameter's place: itself, or its gradient.
    """
    total: Tensor | None = None
    for cut, parameter in masked_cuts(layer):
        units = cut.split(read(parameter).detach())
        axes = [axis for axis in range(units.dim()) if axis != cut.unit_axis]
        dtype = torch.promote_types(units.dtype, torch.float32)
        norm = torch.linalg.vector_norm(units, 1, axes, dtype=dtype)
        total = norm if total is None else total + norm
    assert total is not None
    return total


class UnitMask:
    """The active units of one type in every layer.

    `active` is bool [layers, units], one byte a unit; `widths` are its row sums, known to the host
    so that nobody has to ask the device.
    """

    def __init__(self, layers: Sequence[UnitLayer], kept: Sequence[Sequence[int]]) -> None:
        self.layers = tuple(layers)
        self.unit_type = self.layers[0].unit_type
        device = next(self.layers[0].module.parameters()).device
        active = torch.zeros(len(self.layers), self.layers[0].width, dtype=torch.bool)
        for row, units in zip(active, kept, strict=True):
            row[list(units)] = True
        self.set(active.to(device), [len(units) for units in kept])

    def set(self, active: Tensor, widths: Sequence[int]) -> None:
        """Another set of active units; takes effect on the weights at the next `impose`."""
        self.active, self.widths = active, list(widths)

    def tensors(self) -> tuple[Tensor, ...]:
        """What this keeps on the device."""
        return (self.active,)

    @torch.no_grad()
    def impose(self, optimizer: Optimizer) -> None:
        """Zero what inactive units hold: weights and SGD's momentum. Adam's moments stay alive."""
        for layer, active in zip(self.layers, self.active.unbind(), strict=True):
            for cut, parameter in masked_cuts(layer):
                zero_inactive(parameter, cut, active)
                momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
                if momentum is not None:
                    zero_inactive(momentum, cut, active)

    def frozen(self, layer: int) -> bool:
        """Whether a masked parameter of this layer is not trained."""
        return not all(parameter.requires_grad for _, parameter in masked_cuts(self.layers[layer]))

    def kept(self) -> list[list[int]]:
        """Per layer, the ascending indices of the active units; copies the masks to the host."""
        rows = self.active.tolist()
        return [[unit for unit, active in enumerate(row) if active] for row in rows]

    def full_masks(self) -> Iterator[tuple[str, Tensor]]:
        """Qualified name and bool mask, shape of the parameter, of everything that is masked."""
        for layer, active in zip(self.layers, self.active.unbind(), strict=True):
            for cut, parameter in masked_cuts(layer):
                mask = torch.ones_like(parameter, dtype=torch.bool, requires_grad=False)
                zero_inactive(mask, cut, active)
                yield f"{layer.name}.{cut.parameter}", mask

    def masked_entries(self) -> int:
        """Parameter entries that are held at zero."""
        entries = 0
        for layer, width in zip(self.layers, self.widths, strict=True):
            unit = sum(parameter.numel() for _, parameter in masked_cuts(layer)) // layer.width
            entries += (layer.width - width) * unit
        return entries


def zero_inactive(tensor: Tensor, cut: UnitSlice, active: Tensor) -> None:
    """Multiply, in place, by a bool per unit."""
    units = cut.split(tensor)
    trailing = units.dim() - cut.unit_axis - 1
    units.mul_(active.reshape(-1, *[1] * trailing))
