"""What the published SRigL code does beyond its decisions: RigL's hooks and passes, and an update
that visits every row in Python (baselines page, section 4, point 6). None of it changes a result.

Host synchronisations of an update beyond RigL's, with M matrices under masks and T of them trained:

    every row of a trained matrix       1     comparison of its entries with the fan-in
                                        1     entries that it lacks (living rows only)
                                        1     salient entries (ablation only)
    every trained matrix                1     fan-in
                                        1     list of ablated rows (ablation only)
                                        2 M   logging of a pass of masks over all matrices

The last is quadratic in the number of matrices. That these passes log as well is inferred: it
explains the page's 42,000 synchronisations. Of its 400,000 operators, 29 a row are left for the two
visits below; which they are it does not say, so the temporary tensors are chosen to come near that.

    one update                          synchronisations, operators    the page
    38 matrices of 12,488 rows          40,580  400,922                42,000  400,000
    the same with ablation              53,068  427,950                55,000  425,000
    the 36 masked here, 12,096 rows     39,096  387,540
    the same with ablation              51,192  413,676
"""

import torch
from torch import Tensor

from baselines.rigl_official import RigLOverhead, best_by_full_sort, lifted
from methods.masks import MaskedMethod, SparseWeight


class SRigLOverhead(RigLOverhead):
    """See above.

    Args:
        ablates: whether rows can lose all their entries.
    """

    def __init__(self, method: MaskedMethod, ablates: bool) -> None:
        super().__init__(method)
        self._ablates = ablates

    @torch.no_grad()
    def update(self, weight: SparseWeight, mask: Tensor, gradient: Tensor) -> None:
        # With ablation `active` is nominal, and good enough: nothing comes of these masks.
        staying = int((weight.mask & mask).sum().item())
        kept = best_by_full_sort(weight.parameter.abs(), staying)
        ablated: list[int] = []
        if self._ablates:
            salient = kept | best_by_full_sort(gradient.abs(), weight.active - staying)
            for row in salient:
                row.sum().item()
            ablated = [row for row, living in enumerate(mask.any(1).tolist()) if not living]
        fan_in = int(mask.sum(1).max().item())
        new = torch.zeros_like(mask)
        for row in range(len(mask)):
            new[row] = cut(kept[row], fan_in)
        for row in range(len(mask)):
            if row not in ablated:
                new[row] = grow(new[row], gradient[row], fan_in)
        self._method.apply_masks()
        self._method.mask_gradients()


def cut(kept: Tensor, fan_in: int) -> Tensor:
    """At most `fan_in` of a row's kept entries: which of them is left to an unstable sort."""
    values, order = kept.float().sort(descending=True)
    if kept.sum() > fan_in:
        values[fan_in:] = 0
    return torch.zeros_like(values).scatter_(0, order, values).bool()


def grow(kept: Tensor, gradient: Tensor, fan_in: int) -> Tensor:
    """A row of exactly `fan_in` entries: those kept, and the largest gradients."""
    missing = int((fan_in - kept.sum()).item())
    order = lifted(gradient.abs(), kept).topk(len(kept)).indices
    grown = torch.zeros_like(kept).scatter_(0, order[:missing], True)
    return torch.logical_or(kept, grown)
