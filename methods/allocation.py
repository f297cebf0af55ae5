"""Which units of the dense model a compact one starts with (specification, section 5)."""

from collections.abc import Sequence

import torch

from methods.chance import numpy_generator
from methods.config import MAGNITUDE
from methods.units import UnitLayer


def initial_units(
    layers: Sequence[UnitLayer], widths: Sequence[int], rule: str, seed: int
) -> list[list[int]]:
    """Per layer, the ascending indices of the dense units to keep.

    Args:
        rule: `random` (uniform, by the run's seed: chosen) or `magnitude` (largest L2 norm over
            all of a unit's parameters; ties keep the lower index).
    """
    if rule == MAGNITUDE:
        return [_largest(layer, width) for layer, width in zip(layers, widths, strict=True)]
    kept = []
    for index, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        rng = numpy_generator(seed, "initial units", layer.unit_type, index)
        kept.append(sorted(rng.choice(layer.width, width, replace=False).tolist()))
    return kept


def _largest(layer: UnitLayer, width: int) -> list[int]:
    energy = torch.zeros(layer.width, dtype=torch.float64)
    for cut, parameter in layer.cuts():
        units = cut.split(parameter.detach().cpu().double()).movedim(cut.unit_axis, 0)
        energy += units.flatten(1).square().sum(1)
    return sorted(torch.argsort(energy, descending=True, stable=True)[:width].tolist())
