"""Which entries of one matrix go and which come: the rules of the official codes as pure functions
of tensors (baselines page, sections 3, 5 and 6).

Masks are bool in the weight's shape, True is active. Counts given are host integers; counts
returned as tensors stay on the device. Weights of inactive entries must be 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from methods.ranking import largest


@dataclass(frozen=True)
class Drop:
    """What is left of a mask."""

    kept: Tensor
    dropped: int | Tensor
    """Entries that went."""
    nominal: int
    """Entries that the rule counts on the host."""


DropRule = Callable[[Tensor, Tensor, int, float], Drop]
"""(weight, mask, active entries, fraction) -> what is left."""


def drop_smallest(weight: Tensor, mask: Tensor, active: int, fraction: float) -> Drop:
    """int(a f) active entries of smallest |w| go (RigL; CS, NR and the RigL authors)."""
    dropped = int(active * fraction)
    return Drop(keep_largest(weight, mask, active - dropped), dropped, dropped)


def drop_smallest_ceil(weight: Tensor, mask: Tensor, active: int, rate: float) -> Drop:
    """ceil(p a) active entries of smallest |w| go (sparse_learning); where that is 0, exact zeros
    go instead, and how many is known to the device alone."""
    dropped = ceil(rate * active)
    if dropped == 0:
        kept = mask & (weight != 0)
        return Drop(kept, active - kept.sum(), 0)
    return Drop(keep_largest(weight, mask, active - dropped), dropped, dropped)


def drop_to_threshold(weight: Tensor, mask: Tensor, active: int, rate: float) -> Drop:
    """Entries not above the ceil(p a)-th smallest active |w| go, ties included (ITOP, SViTE)."""
    nominal = ceil(rate * active)
    if nominal == 0:
        return Drop(mask.clone(), 0, 0)
    magnitude = weight.abs()
    place = weight.numel() - active + nominal - 1
    kept = mask & (magnitude > magnitude.flatten().sort().values[place])
    return Drop(kept, active - kept.sum(), nominal)


def drop_by_sign(weight: Tensor, mask: Tensor, active: int, zeta: float) -> Drop:
    """A share zeta of the positive and of the negative entries nearest to 0 goes, and the boundary
    values with them (the SET authors, weights-mask variant: zeros count among the values)."""
    flat = weight.flatten()
    values, size = flat.sort().values, flat.numel()
    positive, negative = (flat > 0).sum(), (flat < 0).sum()
    upper = ((size - positive) + zeta * positive.double()).long().clamp(max=size - 1)
    lower = ((1 - zeta) * negative.double()).long().clamp(max=size - 1)
    above = weight > values.gather(0, upper.view(1))
    below = weight < values.gather(0, lower.view(1))
    kept = mask & (above | below)
    return Drop(kept, active - kept.sum(), int(zeta * active))


def keep_largest(weight: Tensor, mask: Tensor, count: int | Tensor) -> Tensor:
    """The `count` active entries of largest |w|: active before inactive, then lowest index."""
    return largest(torch.where(mask, weight.abs(), -1.0), count)


def grow_largest(scores: Tensor, kept: Tensor, count: int | Tensor, first: Tensor) -> Tensor:
    """`kept` and the `count` entries outside it of largest score (0 or above).

    Entries dropped a moment ago are candidates. Among equal scores `first` (the mask before the
    update) goes first, then the lowest index.
    """
    return kept | (largest(torch.where(kept, -1, scores), count, first) & ~kept)


def grow_bernoulli(uniform: Tensor, kept: Tensor, count: float | Tensor) -> Tensor:
    """`kept` and each entry outside it with probability count / candidates (sparse_learning, ITOP).

    Args:
        uniform: draws from [0, 1), shape of the mask.
    """
    candidates = ~kept
    return kept | (candidates & (uniform < count / candidates.sum()))
