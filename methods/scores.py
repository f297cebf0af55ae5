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

from methods.units import UnitLayer

TokenSums = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(activation, gradient), both [samples, tokens, features] -> what a pruning and a growth score are
made of, summed over tokens: each [samples, features]."""

PRUNE, GROWTH = 0, 1
"""Rows of every score tensor [2, units]; the units of all layers stand side by side."""


def token_sums(activation: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """sum_t a g, and the mean of |a g| over tokens t; each [samples, features].

    The product is made once for both. (`torch.linalg.vecdot` makes one of its own.)
    """
    dtype = torch.promote_types(activation.dtype, torch.float32)
    product = activation.to(dtype) * gradient.to(dtype)
    tokens = list(range(1, product.dim() - 1))
    if not tokens:
        return product, product.abs()
    return product.sum(tokens), product.abs_().mean(tokens)  # in place: the product is our own


def unit_sums(signed: Tensor, growth: Tensor, unit_size: int, mean: bool = True) -> Tensor:
    """Scores of units from their features' sums, summed over samples: [2, units].

    Args:
        signed, growth: [samples, units * unit_size]. Of the first a unit's features are summed
            before the absolute value is taken.
        mean: whether a unit's growth is the mean of its features', or else their sum.
    """
    if unit_size > 1:
        signed = signed.unflatten(1, (-1, unit_size)).sum(2)
        features = growth.unflatten(1, (-1, unit_size))
        growth = features.mean(2) if mean else features.sum(2)
    return torch.stack([signed.abs().sum(0), growth.sum(0)])


def unit_scores(activation: Tensor, gradient: Tensor, unit_size: int) -> tuple[Tensor, Tensor]:
    """Minibatch scores d and s of one layer, each [units], from [samples, tokens, features]."""
    sums = unit_sums(*token_sums(activation, gradient), unit_size) / activation.shape[0]
    return sums[PRUNE], sums[GROWTH]


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
        token_sums: what is observed; BARTER's scores unless told otherwise.
        mean: whether growth is a mean over a unit's features, as BARTER's, or a sum.
    """

    def __init__(
        self,
        layers: Sequence[UnitLayer],
        token_sums: TokenSums = token_sums,
        mean: bool = True,
    ) -> None:
        self._layers = tuple(layers)
        self._token_sums, self._mean = token_sums, mean
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was observed and follow the layers' present widths."""
        self._widths = [layer.width for layer in self._layers]
        self._clear()

    def _clear(self) -> None:
        self._seen: list[tuple[Tensor, Tensor] | None] = [None] * len(self._layers)
        """Per layer, from the backward pass that is under way or was the last one."""
        self._sums: Tensor | None = None
        """Of those before it, [2, units]."""
        self._samples = [0] * len(self._layers)

    @property
    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the scores."""
        reference = next(self._layers[0].module.parameters()).detach()
        return reference.new_empty(0, dtype=torch.promote_types(reference.dtype, torch.float32))

    def open(self) -> None:
        """Start to observe."""
        for index, layer in enumerate(self._layers):
            consumer = layer.module.get_submodule(layer.consumer)
            probe = _Probe(self, index)
            self._handles.append(consumer.register_forward_pre_hook(probe))

    def close(self) -> None:
        """Stop to observe; no hook stays behind."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    @property
    def is_open(self) -> bool:
        return bool(self._handles)

    def add(self, layer: int, pending: list[Tensor], gradient: Tensor) -> None:
        """Account one backward pass of one layer; tensors are [samples, tokens, features].

        Args:
            pending: holds the activation. It is taken out, so that it lives no longer than
                backward itself would keep it; a second pass through one graph is not observed.
        """
        if not pending:
            return
        activation = pending.pop()
        self._samples[layer] += activation.shape[0]
        if self._seen[layer]:  # of an earlier micro-batch
            self._put_together()
        # What follows is done for all layers at once: here every operator costs once per layer.
        self._seen[layer] = self._token_sums(activation, gradient)

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
        sums, count = self._put_together(), samples
        if process_group is not None:
            # One collective for both; the mean over ranks divides each gradient by their number.
            packed = torch.cat([sums.flatten(), sums.new_tensor([samples])])
            dist.all_reduce(packed, group=process_group)
            ranks = dist.get_world_size(process_group)
            sums, count = packed[:-1].view_as(sums) / ranks, packed[-1]
        scores = sums / (count * loss_scale)
        self._clear()
        return scores

    def _put_together(self) -> Tensor:
        """Add the last backward pass to those before it; [2, units] of all of them."""
        samples = max((sums[0].shape[0] for sums in self._seen if sums), default=0)
        size = self._layers[0].unit_size
        signed, growth = (
            torch.cat(
                [
                    self._features(sums and sums[row], samples, size * width)
                    for sums, width in zip(self._seen, self._widths, strict=True)
                ],
                1,
            )
            for row in (PRUNE, GROWTH)
        )
        sums = unit_sums(signed, growth, size, self._mean)
        self._sums = sums if self._sums is None else self._sums + sums
        self._seen = [None] * len(self._layers)
        return self._sums

    def _features(self, sums: Tensor | None, samples: int, features: int) -> Tensor:
        """Of one layer, [samples, features]: without the padding behind its units, and zero for
        samples that no gradient has come from."""
        if sums is None:
            return self.like.new_zeros(samples, features)
        missing = samples - sums.shape[0]
        active = sums[:, :features]
        return torch.cat([active, active.new_zeros(missing, features)]) if missing else active


class _Probe:
    """Forward pre-hook on the map that reads the unit activations.

    A class and not a closure, so that a deep copy of model and collector observes itself.
    The activation is one that backward keeps anyway (the consumer's weight gradient needs it).
    """

    def __init__(self, collector: ScoreCollector, layer: int) -> None:
        self.collector, self.layer = collector, layer

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        activation = inputs[0]
        if torch.is_grad_enabled() and activation.requires_grad:
            pending = [activation.detach()]
            activation.register_hook(partial(self.collector.add, self.layer, pending))
