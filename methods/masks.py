"""Masked execution, shared by the baselines: full-size tensors times masks.

Masks lie over the attention and FFN weight matrices and nothing else (baselines page, section 9).
Nothing here waits for the device, except where `active_parameters` says so.
"""

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from methods.base import MethodContext, SparseMethod
from methods.chance import numpy_generator
from methods.config import Config, MaskedConfig
from methods.density import active_count, layer_sparsities
from methods.units import UnitLayer

MOMENTUM = "momentum_buffer"
_MOMENTS = (MOMENTUM, "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


@dataclass
class SparseWeight:
    """One weight matrix under a mask."""

    name: str
    """Qualified, e.g. `blocks.3.attn.qkv.weight`."""
    layer: int
    """Index of its transformer block."""
    parameter: nn.Parameter
    """[output units, inputs]."""
    mask: Tensor
    """Bool (one byte an entry), shape of the parameter; True is active."""
    sparsity: float
    """Target share of zeros."""
    active: int
    """Active entries, where the host knows their number."""

    @property
    def is_trained(self) -> bool:
        """Whether this step's backward pass reached it: frozen weights keep their mask."""
        return self.parameter.grad is not None


def leaves_traces(optimizer: Optimizer, momentum_is_masked: bool) -> bool:
    """Whether an unmasked gradient of an inactive entry outlives its step in the optimizer's state:
    SGD without momentum has none, Adam's moments are never masked."""
    if isinstance(optimizer, SGD):
        return not momentum_is_masked and any(g["momentum"] for g in optimizer.param_groups)
    return True


@torch.no_grad()
def multiply(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Tensors times masks, in place; one call for all spares the host one per matrix."""
    if pairs:
        tensors, masks = zip(*pairs, strict=True)
        torch._foreach_mul_(tensors, masks)  # pyright: ignore[reportPrivateImportUsage]


def matrices(
    head_layers: Iterable[UnitLayer], channel_layers: Iterable[UnitLayer]
) -> Iterator[tuple[str, int, nn.Parameter]]:
    """Name, block and parameter of every matrix to be masked, in order of depth."""
    for index, layers in enumerate(zip(head_layers, channel_layers, strict=True)):
        for layer in layers:
            for cut in layer.slices:
                if cut.parameter.endswith("weight"):
                    name = f"{layer.name}.{cut.parameter}"
                    yield name, index, layer.module.get_parameter(cut.parameter)


class MaskedMethod(SparseMethod, ABC):
    """A method that multiplies full-size weight matrices by masks."""

    realisation = "masked"
    config_type: ClassVar[type[Config]] = MaskedConfig
    config: MaskedConfig
    masks_gradients: bool = True
    """Whether inactive entries' gradients are zeroed after backward, so that optimizer state of
    entries that were never active stays zero."""
    masks_momentum: bool = True
    """Whether SGD momentum of inactive entries is zeroed after each optimizer step."""
    counts_known: bool = True
    """Whether every `SparseWeight.active` is up to date; else it must be read from the device."""

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        super().attach(model, optimizer, context)
        found = list(matrices(self.head_layers, self.channel_layers))
        sparsities = layer_sparsities(
            [parameter.shape for _, _, parameter in found],
            context.density,
            self.config.distribution,
        )
        weights = []
        for (name, layer, parameter), sparsity in zip(found, sparsities, strict=True):
            mask = self._start_mask(name, parameter, sparsity)
            active = int(mask.sum())
            weights.append(
                SparseWeight(name, layer, parameter, mask.to(parameter.device), sparsity, active)
            )
        self.bind(weights, optimizer, context)
        self.apply_masks()

    def bind(
        self, weights: Sequence[SparseWeight], optimizer: Optimizer, context: MethodContext
    ) -> None:
        """Work on these weights, whose masks are given; `attach` does so for a whole model."""
        self.weights = tuple(weights)
        self.optimizer, self.context = optimizer, context
        self._masked_at = 0

    def _start_mask(self, name: str, parameter: nn.Parameter, sparsity: float) -> Tensor:
        """Exactly so many active entries, uniform without replacement; on the host, so that
        all devices and all methods of one seed start alike."""
        count = active_count(parameter.numel(), sparsity)
        generator = numpy_generator(self.context.seed, "start mask", name)
        mask = torch.zeros(parameter.numel(), dtype=torch.bool)
        mask[torch.from_numpy(generator.permutation(parameter.numel())[:count])] = True
        return mask.view(parameter.shape)

    def after_backward(self, step: int, loss_scale: float | Tensor = 1.0) -> None:
        if self.masks_gradients:
            self.mask_gradients()

    def mask_gradients(self) -> None:
        """Zero inactive entries of every gradient there is, in place."""
        pairs = [(w.parameter.grad, w.mask) for w in self.weights if w.parameter.grad is not None]
        self.impose(pairs)

    def apply_masks(self) -> None:
        """Zero inactive weights, and their SGD momentum where the method masks it; in place."""
        pairs: list[tuple[Tensor, Tensor]] = [(w.parameter, w.mask) for w in self.weights]
        if self.masks_momentum:
            for weight in self.weights:
                momentum = self.optimizer.state.get(weight.parameter, {}).get(MOMENTUM)
                if momentum is not None:
                    pairs.append((momentum, weight.mask))
        self.impose(pairs)

    def impose(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Multiply tensors by masks, in place."""
        multiply(pairs)

    @torch.no_grad()
    def reset_state(self, weight: SparseWeight, grown: Tensor) -> None:
        """Zero the optimizer moments of `grown` entries (bool, shape of the weight)."""
        state = self.optimizer.state.get(weight.parameter, {})
        kept = ~grown
        for moment in _MOMENTS:
            if state.get(moment) is not None:
                state[moment].mul_(kept)

    def after_step(self, step: int) -> None:
        # An update leaves everything masked already.
        if self._masked_at != step:
            self.apply_masks()

    def active_parameters(self) -> int:
        """Parameters that are active now. Waits for the device if the host does not know the
        counts (`counts_known`), once per change of the masks."""
        if not self.counts_known:
            self.read_counts()
        masked = sum(weight.mask.numel() - weight.active for weight in self.weights)
        return super().active_parameters() - masked

    def allowed_parameters(self) -> int:
        masked = sum(weight.mask.numel() - self.allowed_entries(weight) for weight in self.weights)
        return super().allowed_parameters() - masked

    def allowed_entries(self, weight: SparseWeight) -> int:
        """Active entries that the density gives to a matrix."""
        return active_count(weight.mask.numel(), weight.sparsity)

    def masks(self) -> Mapping[str, Tensor]:
        return {weight.name: weight.mask for weight in self.weights}

    def read_counts(self) -> None:
        """Copy the number of active entries of every matrix to the host."""
        counts = torch.stack([weight.mask.sum() for weight in self.weights]).tolist()
        for weight, count in zip(self.weights, counts, strict=True):
            weight.active = count
        self.counts_known = True

    def state_tensors(self) -> tuple[Tensor, ...]:
        return tuple(weight.mask for weight in self.weights)

    def state_dict(self) -> dict[str, Any]:
        return {
            "masks": {weight.name: weight.mask.clone() for weight in self.weights},
            "active": {weight.name: weight.active for weight in self.weights},
            "counts_known": self.counts_known,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for weight in self.weights:
            weight.mask.copy_(state["masks"][weight.name])
            weight.active = state["active"][weight.name]
        self.counts_known = state["counts_known"]

    @torch.no_grad()
    def export(self, model: nn.Module) -> nn.Module:
        """Full-size copy with masked weights; `model` may be an average of past weights."""
        exported = super().export(model)
        for weight in self.weights:
            exported.get_parameter(weight.name).mul_(weight.mask)
        return exported
