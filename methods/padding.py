"""Zero channels beside the active ones, so that FFN widths are multiples of what kernels like.

A padding channel has a zero row in fc1, a zero bias and a zero column in fc2. Its activation is
act(0) = 0, so it adds nothing, and the gradients of all three are products with those zeros: no
optimizer moves it, and its moments stay zero. Padding stands behind the active units, which keep
their order. No count, score or selection sees it, but for what was executed.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from methods.units import UnitLayer, UnitSlice


def active_part(tensor: Tensor, cut: UnitSlice, width: int) -> Tensor:
    """`tensor` (a parameter or its per-entry state) without what stands behind `width` units."""
    units = cut.split(tensor)
    if units.shape[cut.unit_axis] == width:
        return tensor
    return cut.join(units.narrow(cut.unit_axis, 0, width))


def padded(tensor: Tensor, cut: UnitSlice, capacity: int) -> Tensor:
    """`tensor` with units of zeros behind its own, `capacity` in all."""
    units = cut.split(tensor)
    shape = list(units.shape)
    shape[cut.unit_axis] = capacity - shape[cut.unit_axis]
    if not shape[cut.unit_axis]:
        return tensor
    return cut.join(torch.cat([units, units.new_zeros(shape)], cut.unit_axis))


def padding_entries(layers: Iterable[UnitLayer]) -> int:
    """Parameter entries that are padding."""
    return sum(
        parameter.numel() // layer.physical_width * (layer.physical_width - layer.width)
        for layer in layers
        for _, parameter in layer.cuts()
        if layer.physical_width
    )


@torch.no_grad()
def clear_padding(layers: Iterable[UnitLayer]) -> None:
    """Zero whatever has been written into padding."""
    for layer in layers:
        for cut, parameter in layer.cuts():
            padding = layer.physical_width - layer.width
            cut.split(parameter).narrow(cut.unit_axis, layer.width, padding).zero_()


@torch.no_grad()
def strip_padding(layers: Iterable[UnitLayer]) -> None:
    """Replace the layers' Parameters by ones without padding, for a model that no optimizer has."""
    for layer in layers:
        if layer.physical_width == layer.width:
            continue
        for cut, old in list(layer.cuts()):
            data = active_part(old.detach(), cut, layer.width).contiguous()
            owner, _, attribute = cut.parameter.rpartition(".")
            new = nn.Parameter(data, requires_grad=old.requires_grad)
            setattr(layer.module.get_submodule(owner), attribute, new)
