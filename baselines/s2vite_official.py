"""What the published S2ViTE code does beyond its decisions, for timings that can be set beside
published ones (baselines page, section 7, items 8 and 9). None of it changes a result.

Every step: full-size float masks, multiplied into new weight tensors; every forward pass, also in
evaluation: an L1 norm per head, read by the host one by one; every update: 19 reads a block. The
scores of heads are observed at every step, too; that is the method's own part.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from methods.unit_masks import UnitMask, masked_cuts, zero_inactive
from methods.units import UnitLayer

READS_PER_BLOCK = 19
"""Host synchronisations of one update (171 in 9 blocks, 133 in 7)."""


class FullSizeMask(UnitMask):
    """The same units, imposed by float32 masks of the weights' own shapes.

    Args:
        process_group: ranks to which rank 0 sends every mask at every step; None in one process.
    """

    def __init__(
        self,
        layers: Sequence[UnitLayer],
        kept: Sequence[Sequence[int]],
        process_group: Any = None,
    ) -> None:
        self._process_group = process_group
        super().__init__(layers, kept)

    def set(self, active: Tensor, widths: Sequence[int]) -> None:
        super().set(active, widths)
        self.full: list[tuple[nn.Parameter, Tensor]] = []
        for layer, units in zip(self.layers, active.unbind(), strict=True):
            for cut, parameter in masked_cuts(layer):
                mask = torch.ones_like(parameter, dtype=torch.float32, requires_grad=False)
                zero_inactive(mask, cut, units)
                self.full.append((parameter, mask))

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.active, *(mask for _, mask in self.full))

    @torch.no_grad()
    def impose(self, optimizer: Optimizer) -> None:
        for parameter, mask in self.full:
            if self._process_group is not None:
                dist.broadcast(mask, src=0, group=self._process_group)
            parameter.data = (parameter.data * mask).to(parameter.dtype)
            state = optimizer.state.get(parameter, {})
            if state.get("momentum_buffer") is not None:
                state["momentum_buffer"] = (state["momentum_buffer"] * mask).to(parameter.dtype)


class HeadNorms:
    """L1 norm of each head's output, brought to the host in every forward pass."""

    def __init__(self, layers: Sequence[UnitLayer]) -> None:
        self._layers = tuple(layers)
        self._handles: list[torch.utils.hooks.RemovableHandle] = []

    def open(self) -> None:
        for layer in self._layers:
            consumer = layer.module.get_submodule(layer.consumer)
            hook = partial(_read_norms, layer.unit_size)
            self._handles.append(consumer.register_forward_pre_hook(hook))

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def read_counts(masks: Sequence[UnitMask]) -> None:
    """As many host reads of block masks as the published update makes."""
    for blocks in zip(*(mask.active.unbind() for mask in masks), strict=True):
        for read in range(READS_PER_BLOCK):
            blocks[read % len(blocks)].sum().item()


def _read_norms(unit_size: int, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    for head in inputs[0].detach().split(unit_size, dim=-1):
        head.abs().sum().cpu().item()
