"""Pruning and growth scores of units, read from ordinary backward passes
(specification, section 1).

With a[b, j] a unit's activation and g = dL/da, B samples and J coordinates:

    d = (1/B)   sum_b | sum_j a g |     pruning score
    s = (1/(BJ)) sum_b sum_j | a g |    growth score

The sum over j is signed and taken per sample, before the absolute value.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from methods.recomputed import Kept, kept
from methods.units import UnitLayer

ScoreSums = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""(activation, gradient, unit_dim) -> two scores per unit, summed over samples."""

PRUNE, GROWTH = 0, 1
"""Rows of every score tensor [2, units]; the units of all layers stand side by side."""


def score_sums(activation: Tensor, gradient: Tensor, unit_dim: int) -> tuple[Tensor, Tensor]:
    """sum_b |sum_j a g| and (1/J) sum_b sum_j |a g|, each [units].

    Args:
        activation: dimension 0 is the sample, `unit_dim` the unit, all others are coordinates.
        gradient: of the loss with respect to `activation`, same shape.
    """
    dtype = torch.promote_types(activation.dtype, torch.float32)
    product = activation.to(dtype) * gradient.to(dtype)
    coordinates = [dim for dim in range(1, product.dim()) if dim != unit_dim]
    size = max(1, product[0].numel() // max(1, product.shape[unit_dim]))
    prune = product.sum(coordinates).abs().sum(0)
    growth = product.abs_().sum([0, *coordinates]) / size  # in place: the product is our own
    return prune, growth


def unit_scores(activation: Tensor, gradient: Tensor, unit_dim: int) -> tuple[Tensor, Tensor]:
    """Minibatch scores d and s of one layer, each [units]; arguments as for `score_sums`."""
    prune, growth = score_sums(activation, gradient, unit_dim)
    return prune / activation.shape[0], growth / activation.shape[0]


def layer_spans(widths: Sequence[int]) -> list[slice]:
    """Where each layer's units stand in a score tensor."""
    ends = list(accumulate(widths))
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


class ScoreCollector:
    """Observes the units of one type during backward passes and hands out minibatch scores.

    Between two calls of `take` every backward pass counts as a part of one minibatch, so
    gradient accumulation (micro-batch losses divided by their number) gives the score of the
    whole. It sees the units that the tensors hold: in a compact model the active ones.

    Args:
        score_sums: what is observed; BARTER's scores unless told otherwise.
    """

    def __init__(self, layers: Sequence[UnitLayer], score_sums: ScoreSums = score_sums) -> None:
        self._layers = tuple(layers)
        self._score_sums = score_sums
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was observed and follow the layers' present widths."""
        widths = [layer.width for layer in self._layers]
        reference = next(self._layers[0].module.parameters())
        dtype = torch.promote_types(reference.dtype, torch.float32)
        self.sums = torch.zeros(2, sum(widths), dtype=dtype, device=reference.device)
        self._spans = layer_spans(widths)
        self._samples = [0] * len(widths)
        self._samples_before = self._samples

    def open(self) -> None:
        """Start to observe."""
        for index, layer in enumerate(self._layers):
            consumer = layer.module.get_submodule(layer.consumer)
            probe = _Probe(self, index, layer.unit_size)
            self._handles.append(consumer.register_forward_pre_hook(probe))

    def close(self) -> None:
        """Stop to observe; no hook stays behind."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    def add(self, layer: int, pending: list[Kept], unit_size: int, gradient: Tensor) -> None:
        """Account one backward pass of one layer; tensors are [samples, tokens, features].

        Args:
            pending: gives the activation. It is taken out, so that it lives no longer than
                backward itself would keep it; a second pass through one graph is not observed.
        """
        if not pending:
            return
        activation = pending.pop()()
        per_unit = (*activation.shape[:-1], -1, unit_size)
        if activation.shape[-1]:
            sums = self._score_sums(
                activation.reshape(per_unit), gradient.reshape(per_unit), activation.dim() - 1
            )
            self.sums[:, self._spans[layer]] += torch.stack(sums)
        self._samples[layer] += activation.shape[0]

    def count_again(self) -> None:
        """The operators of the last minibatch's backward pass ran again, without this object's
        knowledge: they added to the same sums."""
        if self.is_open and not any(self._samples):
            self._samples = list(self._samples_before)

    def take(self, loss_scale: float | Tensor = 1.0, process_group: Any = None) -> Tensor | None:
        """Minibatch scores [2, units] since the last call; None if no backward pass was seen.

        Args:
            loss_scale: the factor on the loss, divided out again.
            process_group: ranks whose samples belong to the same minibatch. Each rank's loss
                is its local mean, and the global loss the mean of those.
        """
        samples = max(self._samples)
        if samples == 0:
            return None
        sums, count = self.sums, samples
        if process_group is not None:
            # One collective for both; the mean over ranks divides each gradient by their number.
            packed = torch.cat([sums.flatten(), sums.new_tensor([samples])])
            dist.all_reduce(packed, group=process_group)
            ranks = dist.get_world_size(process_group)
            sums, count = packed[:-1].view_as(sums) / ranks, packed[-1]
        scores = sums / (count * loss_scale)
        self.sums.zero_()
        self._samples_before, self._samples = self._samples, [0] * len(self._samples)
        return scores


class _Probe:
    """Forward pre-hook on the map that reads the unit activations.

    A class and not a closure, so that a deep copy of model and collector observes itself.
    The activation is one that backward keeps anyway (the consumer's weight gradient needs it), or
    makes again, once for both.
    """

    def __init__(self, collector: ScoreCollector, layer: int, unit_size: int) -> None:
        self.collector, self.layer, self.unit_size = collector, layer, unit_size

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        activation = inputs[0]
        if torch.is_grad_enabled() and activation.requires_grad:
            pending = [kept(activation)]
            activation.register_hook(
                partial(self.collector.add, self.layer, pending, self.unit_size)
            )
