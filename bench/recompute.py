"""Normalisation outputs and GELUs that are not kept for backward but computed again in it.

A linear map keeps its input for the gradient of its weights. Where that input comes from a
LayerNorm or a GELU, whose own input is kept anyway, autograd is given a note in its place
(`torch.autograd.graph.saved_tensors_hooks`), and the same operator on the same numbers gives the
input back. All products stay torch's own: gradients are equal bit by bit.

Reached are the maps of the transformer blocks, most of what a model keeps. The final norm is not.
"""

from typing import Any

import torch
from timm.layers.attention import Attention
from timm.layers.mlp import Mlp
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from methods.recomputed import Recomputed, mark, recomputed_of


def recompute_in(model: nn.Module, what: frozenset[str]) -> None:
    """Change the model's blocks in place: `norm` (what attention and FFN read), `gelu`, or both.

    Raises:
        ValueError: the activation of a block is not torch's GELU.
    """
    if not what:
        return
    for block in list(model.modules()):
        attention, ffn = getattr(block, "attn", None), getattr(block, "mlp", None)
        if not (isinstance(attention, Attention) and isinstance(ffn, Mlp)):
            continue
        if "norm" in what:
            for norm in block.children():
                if isinstance(norm, nn.LayerNorm):
                    norm.register_forward_hook(_mark)
            _forget_input(attention.qkv)
            _forget_input(ffn.fc1)
        if "gelu" in what:
            if not isinstance(ffn.act, nn.GELU):
                raise ValueError(f"{type(ffn.act).__name__} is not a GELU")
            ffn.act.register_forward_hook(_mark)
            _forget_input(ffn.fc2)


def _forget_input(linear: nn.Module) -> None:
    """In place, as a layer that loses its heads does: names, hooks and copies stay right."""
    assert type(linear) is nn.Linear
    linear.__class__ = ForgetfulLinear


class ForgetfulLinear(nn.Linear):
    """A linear map whose input is made again in backward, where it says how."""

    def forward(self, input: Tensor) -> Tensor:
        again = recomputed_of(input)
        if again is None:
            return super().forward(input)
        input, again = _as_product_reads(input, again)
        storage = input.untyped_storage()._cdata

        def pack(tensor: Tensor) -> Tensor | _Note:
            return _Note(again, tensor) if tensor.untyped_storage()._cdata == storage else tensor

        with saved_tensors_hooks(pack, _unpack):
            return super().forward(input)


class _Note:
    """What autograd holds in place of (a view of) an activation."""

    def __init__(self, again: Recomputed, tensor: Tensor) -> None:
        self._again = again.add_reader()
        self._view = tensor.shape, tensor.stride(), tensor.storage_offset()

    def tensor(self) -> Tensor:
        return self._again().as_strided(*self._view)


def _unpack(saved: Any) -> Tensor:
    return saved.tensor() if isinstance(saved, _Note) else saved


def _mark(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    """Forward hook of a module whose output is not to be kept."""
    if torch.is_grad_enabled() and output.requires_grad:
        source, precision = inputs[0].detach(), _autocast_now(output.device.type)

        def make() -> Tensor:
            with torch.no_grad(), precision:
                return module.forward(source)

        mark(output, Recomputed(make))


def _as_product_reads(input: Tensor, again: Recomputed) -> tuple[Tensor, Recomputed]:
    """Under autocast the product reads, and keeps, a copy of lower precision: make that here,
    where it can be known again."""
    kind = input.device.type
    if not torch.is_autocast_enabled(kind) or input.dtype == torch.get_autocast_dtype(kind):
        return input, again
    dtype = torch.get_autocast_dtype(kind)
    whole = again.add_reader()
    return input.to(dtype), Recomputed(lambda: whole().to(dtype))


def _autocast_now(kind: str) -> torch.autocast:
    """The present state of autocast, to be entered in backward, where it is off."""
    return torch.autocast(
        kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind)
    )
