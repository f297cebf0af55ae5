"""The scores of one S2ViTE update, gathered from one minibatch (baselines page, section 7)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from baselines.s2vite_rules import head_token_sums
from methods.schedule import HEAD
from methods.scores import ScoreCollector
from methods.unit_masks import UnitMask, masked_cuts, unit_l1
from methods.units import UnitLayer

FROZEN, UNSEEN = "frozen layer", "no gradient was seen"


class UpdateScores:
    """Drop and growth scores of every block; only the current minibatch counts.

    Heads are observed in backward passes, between `open` and `close`. Of channels, growth is read
    from the gradients of whole minibatches and drop from the weights as they are when asked for.
    """

    def __init__(self, heads: Sequence[UnitLayer], channels: Sequence[UnitLayer]) -> None:
        self.collector = ScoreCollector(heads, head_token_sums, mean=False)
        self._channel_layers = tuple(channels)
        self.forget()

    def forget(self) -> None:
        self.heads: Tensor | None = None
        """[2, blocks, heads]: drop, growth."""
        self.channel_growth: list[Tensor | None] = [None] * len(self._channel_layers)
        """Per block, [channels]."""

    def read(self, loss_scale: float | Tensor, process_group: Any) -> None:
        """After the last backward pass of a minibatch; arguments as `ScoreCollector.take`."""
        heads = self.collector.take(loss_scale, process_group)
        self.heads = None if heads is None else heads.view(2, len(self._channel_layers), -1)
        for block, layer in enumerate(self._channel_layers):
            if all(parameter.grad is not None for _, parameter in masked_cuts(layer)):
                self.channel_growth[block] = unit_l1(layer, _gradient) / loss_scale

    def skip_reason(self, mask: UnitMask, block: int) -> str | None:
        """Why the block's units cannot be exchanged; None if they can.

        Chosen: a block with a frozen weight keeps its units, or the weight would change.
        """
        if mask.frozen(block):
            return FROZEN
        observed = self.heads if mask.unit_type == HEAD else self.channel_growth[block]
        return UNSEEN if observed is None else None

    def of(self, mask: UnitMask, block: int) -> tuple[Tensor, Tensor]:
        """Drop and growth scores of the block's units, where `skip_reason` is None."""
        if mask.unit_type == HEAD:
            assert self.heads is not None
            return self.heads[0, block], self.heads[1, block]
        growth = self.channel_growth[block]
        assert growth is not None
        return unit_l1(mask.layers[block], _weight), growth

    def are_finite(self) -> Tensor:
        """A bool on the device. Under a gradient scaler an overflowing step trains nothing, so it
        should move nothing either."""
        observed = [self.heads, *self.channel_growth]
        finite = [scores.isfinite().all() for scores in observed if scores is not None]
        device = self.collector.like.device
        return torch.stack(finite).all() if finite else torch.ones((), device=device).bool()


def _weight(parameter: nn.Parameter) -> Tensor:
    return parameter


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
