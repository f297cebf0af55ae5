"""What the published RigL code does beyond its decisions, for timings that can be set beside
published ones (baselines page, section 3, points 6, 8 and 11; section 1, full tensors). None of it
changes a result.

Host synchronisations, with M matrices under masks, T of them trained, and R rows in all:

    every pass of masks over weights    2 M   largest inactive |w|, for logging
    every update                        T     entries that stay
                                        R     whether each row of each mask has an active entry

A step has one such pass, after its optimizer step; an update has another one. Operators are 2 a row
and some 70 a matrix. With the page's 38 matrices of 12,488 rows an update comes to 12,678
synchronisations and 28,320 operators, where the page has 13,000 and 27,000; the 36 matrices masked
here, of 12,096 rows, to 12,276 and 27,360.

All this is done beside the decision and not in its place, so an update has the decision's own two
sorts a matrix more than the published one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from baselines.overhead import Overhead
from methods.masks import MaskedMethod, SparseWeight


class RigLOverhead(Overhead):
    """Hooks on all weights of `method`, masks applied one by one, and what is listed above.

    Raises:
        ValueError: several processes, whose dense gradients nobody would average.
    """

    masks_in_backward = True

    def __init__(self, method: MaskedMethod) -> None:
        if method.context.process_group is not None:
            raise ValueError("overhead is 'official', which runs in a single process only")
        self._method = method
        self._ever_active = {weight.name: weight.mask.clone() for weight in method.weights}
        self._collecting = False
        self._seen: dict[str, Tensor] = {}
        self._handles = [
            _hook(weight.parameter, partial(self._on_gradient, weight)) for weight in method.weights
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def expect(self, dense: bool) -> None:
        self._collecting = dense
        self._seen.clear()

    def _on_gradient(self, weight: SparseWeight, gradient: Tensor) -> Tensor:
        """At every backward: keep the dense gradient if it is wanted, pass a masked one on.

        Micro-batches are added up as autograd adds them, so that the sum is that of an unmasked
        `.grad` bit for bit; the published code divides each by n, here the sum is divided once.
        """
        if self._collecting:
            # Without a `.grad` this is a minibatch's first backward pass, whatever came before.
            earlier = self._seen.get(weight.name) if weight.parameter.grad is not None else None
            # Never in place: the engine may share the tensor.
            self._seen[weight.name] = gradient if earlier is None else earlier + gradient
        return gradient * weight.mask

    def take_dense_gradient(self, weight: SparseWeight) -> Tensor | None:
        seen = self._seen.pop(weight.name, None)
        return None if weight.parameter.grad is None else seen

    @torch.no_grad()
    def before_masks(self) -> None:
        for weight in self._method.weights:
            inactive = weight.parameter[~weight.mask]
            if inactive.numel():
                inactive.abs().max().item()

    @torch.no_grad()
    def multiply(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        for tensor, mask in pairs:
            tensor.mul_(mask)

    @torch.no_grad()
    def update(self, weight: SparseWeight, mask: Tensor, gradient: Tensor) -> None:
        """Two full descending sorts and two scatters, as if the mask were still to be found."""
        staying = int((weight.mask & mask).sum().item())
        kept = best_by_full_sort(weight.parameter.abs(), staying)
        grown = best_by_full_sort(lifted(gradient.abs(), kept), weight.active - staying)
        torch.logical_or(kept, grown)

    def after_update(self) -> None:
        for weight in self._method.weights:
            self._ever_active[weight.name].logical_or_(weight.mask)
        for weight in self._method.weights:
            for row in weight.mask:
                row.any().item()

    def tensors(self) -> tuple[Tensor, ...]:
        return (*self._ever_active.values(), *self._seen.values())

    def state_dict(self) -> dict[str, Any]:
        ever_active = {name: tensor.clone() for name, tensor in self._ever_active.items()}
        return {"ever_active": ever_active, "collecting": self._collecting}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, tensor in self._ever_active.items():
            tensor.copy_(state["ever_active"][name])
        self.expect(state["collecting"])


def best_by_full_sort(scores: Tensor, count: int) -> Tensor:
    """Mask of the `count` largest entries, by sorting all of them."""
    flat = scores.flatten()
    order = flat.topk(flat.numel()).indices
    places = torch.arange(flat.numel(), device=flat.device)
    values = torch.where(places < count, torch.ones_like(places), torch.zeros_like(places))
    return torch.zeros_like(places).scatter_(0, order, values).view(scores.shape).bool()


def lifted(scores: Tensor, kept: Tensor) -> Tensor:
    """Scores with what is kept below all others."""
    return torch.where(kept, torch.ones_like(scores) * (scores.min() - 1), scores)


def _hook(
    parameter: nn.Parameter, hook: Callable[[Tensor], Tensor]
) -> torch.utils.hooks.RemovableHandle:
    """Hook on a parameter's gradient, also where it is frozen now: it may be trained later.

    Copies of a parameter, pickled or deep, have no hooks.
    """
    is_trained = parameter.requires_grad
    handle = parameter.requires_grad_(True).register_hook(hook)
    parameter.requires_grad_(is_trained)
    return handle
