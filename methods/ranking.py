"""Exact selections by rank, without waiting for the device.

`topk` and `sort` leave the order of equal values open. Here ties are broken by the stated
preference and then by the lowest index, so that counts and results are exact and repeatable
(baselines page, section 1, chosen). Counts may be host integers or tensors on the device.
"""

import torch
from torch import Tensor


def largest(scores: Tensor, count: int | Tensor, first: Tensor | None = None) -> Tensor:
    """Mask of the `count` largest entries of a whole tensor.

    Args:
        scores: any shape.
        count: an integer or a 0-d integer tensor; below 0 counts as 0, too many as all.
        first: bool, shape of `scores`: entries that go before the others among equal scores.
    """
    rows = None if first is None else first.reshape(1, -1)
    return largest_per_row(scores.reshape(1, -1), count, rows).view(scores.shape)


def largest_per_row(scores: Tensor, count: int | Tensor, first: Tensor | None = None) -> Tensor:
    """Mask of the `count` largest entries of each row.

    Args:
        scores: [rows, columns].
        count: an integer for all rows, or integers that broadcast to [rows, 1].
        first: bool [rows, columns]: goes before the others among equal scores of its row.
    """
    order = None if first is None else _ahead(first)
    arranged = scores if order is None else scores.gather(1, order)
    ranked = arranged.sort(dim=1, descending=True, stable=True).indices
    if order is not None:
        ranked = order.gather(1, ranked)
    places = torch.arange(scores.shape[1], device=scores.device)
    chosen = (places < count).expand(scores.shape)
    return torch.empty(scores.shape, dtype=torch.bool, device=scores.device).scatter_(
        1, ranked, chosen
    )


def _ahead(first: Tensor) -> Tensor:
    """Per row, the column indices with those of `first` in front, each part in its order."""
    ahead = first.cumsum(1)
    behind = (~first).cumsum(1) + ahead[:, -1:]
    places = torch.where(first, ahead, behind) - 1
    columns = torch.arange(first.shape[1], device=first.device).expand(first.shape)
    return torch.empty_like(places).scatter_(1, places, columns)
