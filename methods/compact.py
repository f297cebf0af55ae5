"""Physical removal and cloning of units (specification, section 2, rules 5, 6, 9 and 10).

The first half works on tensors, the second on a layer and its optimizer. Nothing here
synchronises with the host: positions are host integers, values never leave the device.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from methods.optimizer_state import check_state, replace_parameter
from methods.padding import active_part, padded
from methods.units import UnitLayer, UnitSlice, set_width

Replaced = dict[str, tuple[nn.Parameter, nn.Parameter]]
"""Qualified name -> (old, new) Parameter."""


def remove_unit(tensor: Tensor, cut: UnitSlice, unit: int) -> Tensor:
    """`tensor` without the slices of one unit (a parameter or its per-entry state)."""
    units = cut.split(tensor)
    before = units.narrow(cut.unit_axis, 0, unit)
    after = units.narrow(cut.unit_axis, unit + 1, units.shape[cut.unit_axis] - unit - 1)
    return cut.join(torch.cat([before, after], cut.unit_axis))


def keep_units(tensor: Tensor, cut: UnitSlice, kept: Sequence[int]) -> Tensor:
    """`tensor` with the slices of the `kept` units only, in that order."""
    index = torch.tensor(kept, dtype=torch.long, device=tensor.device)
    return cut.join(cut.split(tensor).index_select(cut.unit_axis, index))


def clone_parameter(tensor: Tensor, cut: UnitSlice, parent: int, noise: Tensor) -> Tensor:
    """`tensor` with a copy of unit `parent` appended as its last unit.

    Producing parameters are copied exactly. Output weights are split: half plus `noise` stays
    with the parent, half minus `noise` goes to the copy.

    Args:
        noise: as many numbers as the unit has output weights, [d] or [d, head_dim].
    """
    if not cut.is_output:
        return _append(tensor, cut, parent, lambda old: (old, old))

    def split_output(old: Tensor) -> tuple[Tensor, Tensor]:
        half, eps = old / 2, noise.reshape(old.shape)
        return half + eps, half - eps

    return _append(tensor, cut, parent, split_output)


def clone_state(tensor: Tensor, cut: UnitSlice, parent: int, inherit: bool = False) -> Tensor:
    """Per-entry optimizer state after the clone: zero for parent and copy (the paper's rule), or
    the parent's for both (`inherit`, an option)."""
    if inherit:
        return _append(tensor, cut, parent, lambda old: (old, old))
    return _append(tensor, cut, parent, lambda old: (torch.zeros_like(old), torch.zeros_like(old)))


def output_weights(layer: UnitLayer, unit: int) -> Tensor:
    """The unit's output weights: [d] for a channel, [d, head_dim] for a head."""
    cut, parameter = next((c, p) for c, p in layer.cuts() if c.is_output)
    weights = cut.split(parameter.detach()).select(cut.unit_axis, unit)
    return weights.reshape(weights.shape[0], -1).squeeze(1) if cut.size == 1 else weights.squeeze(1)


def split_noise(output: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """Gaussian noise of `output`'s shape with `scale` times its root mean square (chosen)."""
    draw = torch.randn(output.shape, generator=generator, device=output.device, dtype=output.dtype)
    return draw * (scale * output.square().mean().sqrt())


def remove_from_layer(layer: UnitLayer, optimizer: Optimizer, unit: int) -> Replaced:
    """Rebuild the layer's tensors and optimizer state without one unit."""

    def remove(cut: UnitSlice, tensor: Tensor) -> Tensor:
        return remove_unit(tensor, cut, unit)

    return rebuild(layer, optimizer, layer.width - 1, remove, remove)


def clone_in_layer(
    layer: UnitLayer, optimizer: Optimizer, parent: int, noise: Tensor, inherit_state: bool = False
) -> Replaced:
    """Rebuild the layer's tensors and optimizer state with unit `parent` cloned."""
    return rebuild(
        layer,
        optimizer,
        layer.width + 1,
        lambda cut, tensor: clone_parameter(tensor, cut, parent, noise),
        lambda cut, tensor: clone_state(tensor, cut, parent, inherit_state),
    )


def keep_in_layer(layer: UnitLayer, optimizer: Optimizer, kept: Sequence[int]) -> Replaced:
    """Rebuild the layer's tensors and optimizer state with the `kept` units only."""

    def keep(cut: UnitSlice, tensor: Tensor) -> Tensor:
        return keep_units(tensor, cut, kept)

    return rebuild(layer, optimizer, len(kept), keep, keep)


def resize_layer(layer: UnitLayer, optimizer: Optimizer, width: int) -> Replaced:
    """Give the layer's tensors room for `width` units; their values are zero, to be loaded."""

    def blank(cut: UnitSlice, tensor: Tensor) -> Tensor:
        shape = list(cut.split(tensor).shape)
        shape[cut.unit_axis] = width
        return cut.join(tensor.new_zeros(shape))

    return rebuild(layer, optimizer, width, blank, blank)


def rebuild(
    layer: UnitLayer,
    optimizer: Optimizer,
    width: int,
    new_parameter: Callable[[UnitSlice, Tensor], Tensor],
    new_state: Callable[[UnitSlice, Tensor], Tensor],
) -> Replaced:
    """Replace every Parameter that holds the layer's units; the functions see no padding.

    New Parameters, rather than new data in the old ones: gradient, hooks and the autograd node
    of the old shape go with the old object. Each keeps its name in the module, its place in the
    optimizer's groups, and whether it is trained.
    """
    cuts, before, capacity = list(layer.cuts()), layer.width, layer.capacity(width)

    def remap(new: Callable[[UnitSlice, Tensor], Tensor], cut: UnitSlice, tensor: Tensor) -> Tensor:
        return padded(new(cut, active_part(tensor, cut, before)), cut, capacity)

    check_state(optimizer, (parameter for _, parameter in cuts))
    replaced: Replaced = {}
    for cut, old in cuts:
        data = remap(new_parameter, cut, old.detach()).contiguous()
        new = nn.Parameter(data, requires_grad=old.requires_grad)
        replace_parameter(optimizer, old, new, partial(remap, new_state, cut))
        owner, _, attribute = cut.parameter.rpartition(".")
        setattr(layer.module.get_submodule(owner), attribute, new)
        replaced[f"{layer.name}.{cut.parameter}"] = (old, new)
    set_width(layer, width)
    return replaced


def _append(
    tensor: Tensor, cut: UnitSlice, parent: int, split: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    units = cut.split(tensor)
    parent_now, copy = split(units.narrow(cut.unit_axis, parent, 1))
    before = units.narrow(cut.unit_axis, 0, parent)
    after = units.narrow(cut.unit_axis, parent + 1, units.shape[cut.unit_axis] - parent - 1)
    return cut.join(torch.cat([before, parent_now, after, copy], cut.unit_axis))
