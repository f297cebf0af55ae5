"""A compact model that computes what a model with masked units does
(derived; baselines page, section 7, item 10)."""

from collections.abc import Sequence
from typing import cast

import torch
from timm.layers.attention import Attention
from torch import nn

from methods.compact import keep_units
from methods.units import UnitLayer, find_layers, set_width


@torch.no_grad()
def remove_inactive(
    model: nn.Module, heads: Sequence[Sequence[int]], channels: Sequence[Sequence[int]]
) -> None:
    """Cut `model`, in place, to these heads and channels of every block, in that order.

    The units that go count as masked: the weights of their q, k and v rows, fc1 row and fc2
    column as zero, whatever the tensors hold. A channel then adds nothing, whatever its bias. A
    head still adds its value bias, which is folded into the output projection's bias first.
    """
    head_layers, channel_layers = find_layers(model)
    for layer, kept in zip(head_layers, heads, strict=True):
        _fold_constant_heads(cast(Attention, layer.module), kept)
        _keep(layer, kept)
    for layer, kept in zip(channel_layers, channels, strict=True):
        _keep(layer, kept)


def _fold_constant_heads(attention: Attention, kept: Sequence[int]) -> None:
    """Add what heads without q, k and v weights put out: their value bias, since the attention
    weights of every token sum to one."""
    if attention.qkv.bias is None:
        return
    value_bias = attention.qkv.bias.chunk(3)[2].clone()
    value_bias.view(attention.num_heads, -1)[list(kept)] = 0
    constant = attention.proj.weight @ value_bias
    if attention.proj.bias is None:
        trained = attention.proj.weight.requires_grad
        attention.proj.bias = nn.Parameter(constant, requires_grad=trained)
    else:
        attention.proj.bias.add_(constant)


def _keep(layer: UnitLayer, kept: Sequence[int]) -> None:
    for cut, parameter in list(layer.cuts()):
        data = keep_units(parameter.detach(), cut, kept).contiguous()
        owner, _, attribute = cut.parameter.rpartition(".")
        new = nn.Parameter(data, requires_grad=parameter.requires_grad)
        setattr(layer.module.get_submodule(owner), attribute, new)
    set_width(layer, len(kept))
