"""SRigL's update of one matrix as pure functions of tensors, vectorised over rows; no count ever
visits the host (baselines page, section 4).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from baselines.drop_grow import keep_largest
from methods.ranking import largest, largest_per_row


@dataclass(frozen=True)
class Ablation:
    """When a row has too few salient entries to live."""

    gamma: float
    """Below 1 a fraction of the fan-in, else a count."""
    sparse_fan_in: bool
    """Whether of the fan-in before any ablation, else of the dense one."""

    def threshold(self, capacity: int, rows: int, columns: int) -> int:
        """Salient entries that a row needs, before it is lowered."""
        if self.gamma >= 1:
            return int(self.gamma)
        return max(1, int(self.gamma * (capacity // rows if self.sparse_fan_in else columns)))


@dataclass(frozen=True)
class FanInUpdate:
    """The new topology of one matrix; counts are 0-d tensors on its device."""

    mask: Tensor
    living: Tensor
    """Bool [rows]; the others have no connection."""
    fan_in: Tensor
    """Active entries of each living row."""
    n_keep: Tensor
    threshold: Tensor | None
    """Salient entries that a row needed; None without ablation."""


def update_fan_in(
    weight: Tensor,
    mask: Tensor,
    gradient: Tensor,
    fraction: float,
    capacity: int,
    ablation: Ablation | None,
) -> FanInUpdate:
    """Drop, ablate rows, and grow every living row to the same fan-in.

    Args:
        weight: [rows, columns], 0 where inactive.
        mask: bool, before the update.
        gradient: dense gradient.
        fraction: share of the active entries to drop.
        capacity: entries that the matrix may spend; never exceeded.
        ablation: None never ablates.
    """
    rows, columns = weight.shape
    magnitude, growth = weight.abs(), gradient.abs()
    active = mask.sum()
    dropped = (active.double() * fraction).long()
    n_keep = torch.minimum(active - dropped, (weight != 0).sum())
    if ablation is None:
        threshold = None
        living = torch.ones(rows, dtype=torch.bool, device=weight.device)
    else:
        salient = keep_largest(weight, mask, n_keep) | largest(growth, active - n_keep, mask)
        wanted = ablation.threshold(capacity, rows, columns)
        living, threshold = _living_rows(salient.sum(1), wanted, capacity // columns)
    fan_in = capacity // living.sum()
    kept = _keep(magnitude, living, n_keep, fan_in)
    missing = (fan_in - kept.sum(1, keepdim=True)) * living.unsqueeze(1)
    grown = largest_per_row(torch.where(kept, -1, growth), missing, mask)
    return FanInUpdate(kept | grown, living, fan_in, n_keep, threshold)


def _living_rows(salient: Tensor, wanted: int, fewest: int) -> tuple[Tensor, Tensor]:
    """Rows with enough salient entries; the threshold falls until more than `fewest` live, so
    that no fan-in exceeds the columns."""
    counts = salient.sort(descending=True).values
    threshold = counts[min(fewest, len(counts) - 1)].clamp(max=wanted)
    return salient >= threshold, threshold


def _keep(magnitude: Tensor, living: Tensor, n_keep: Tensor, fan_in: Tensor) -> Tensor:
    """The n_keep largest weights of living rows, at most `fan_in` a row: each row's largest, and
    never an exact zero (chosen where the official code takes arbitrary ones)."""
    candidates = living.unsqueeze(1) & (magnitude > 0)
    kept = largest(torch.where(candidates, magnitude, -1), n_keep) & candidates
    return kept & largest_per_row(torch.where(kept, magnitude, -1), fan_in)
