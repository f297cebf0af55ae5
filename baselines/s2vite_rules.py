"""Which units of one block S2ViTE drops and grows (baselines page, section 7, item 4).

Pure functions on one block's units. Counts are host integers and values never leave the device,
so nothing here waits for it. Scores are [units], masks bool [units], True where active.
"""

from math import ceil
from typing import Protocol

import torch
from torch import Tensor


class ExchangeRule(Protocol):
    """One block's units after a drop and a growth."""

    def __call__(
        self, drop_scores: Tensor, grow_scores: Tensor, active: Tensor, width: int, count: int
    ) -> Tensor:
        """The new mask.

        Args:
            width: number of True in `active`, at least 1.
            count: units to drop and to grow, 1 to `width`.
        """
        ...


def head_token_sums(activation: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """What drop = sum_b |sum_j a g| and growth = sum_b sum_j |g| of heads are made of: sum_t a g
    and sum_t |g|, each [samples, features].

    Args:
        activation: the heads' outputs before the output projection, [samples, tokens, features].
        gradient: of the loss with respect to `activation`, same shape.
    """
    dtype = torch.promote_types(activation.dtype, torch.float32)
    gradient = gradient.to(dtype)
    return (activation.to(dtype) * gradient).sum(1), gradient.abs().sum(1)


def exchange_count(rate: float, width: int) -> int:
    """Units of a block with `width` active ones that an update drops, and grows again."""
    return ceil(rate * width)


def exchange_heads(
    drop_scores: Tensor, grow_scores: Tensor, active: Tensor, width: int, count: int
) -> Tensor:
    """The `count` active heads of smallest drop score go; the same number of largest growth score
    among all heads then off comes, just-dropped ones included."""
    kept = _largest(drop_scores, active, width - count)
    return kept | _largest(grow_scores, ~kept, count)


def exchange_channels(
    drop_scores: Tensor, grow_scores: Tensor, active: Tensor, width: int, count: int
) -> Tensor:
    """Thresholds in place of counts: every tie at the drop threshold goes, every tie at the growth
    threshold comes, and all channels do where that is zero.

    Args:
        drop_scores: zero for inactive channels.
    """
    inactive = len(active) - width
    kept = drop_scores > drop_scores.sort().values[inactive + count - 1]
    outside = grow_scores.masked_fill(kept, 0)
    return kept | (outside >= outside.sort(descending=True).values[count - 1])


def exchange_excluding_dropped(
    drop_scores: Tensor, grow_scores: Tensor, active: Tensor, width: int, count: int
) -> Tensor:
    """As for heads, but what is dropped cannot come back in the same update.

    No more are dropped than there are others to grow (chosen), so the width never changes.
    """
    count = min(count, len(active) - width)
    kept = _largest(drop_scores, active, width - count)
    return kept | _largest(grow_scores, ~active, count)


def _largest(scores: Tensor, eligible: Tensor, count: int) -> Tensor:
    """The `count` eligible units of largest score; of equal ones the lower index (chosen: the
    published code leaves ties to an unstable sort)."""
    order = scores.masked_fill(~eligible, -torch.inf).argsort(descending=True, stable=True)
    return torch.zeros_like(eligible).scatter_(0, order[:count], True)
