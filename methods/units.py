"""Heads and channels of a transformer block: which parameter slices a unit owns.

Everything that removes, clones, masks or scores a unit goes through these descriptions, so a
new kind of block needs a new description and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from timm.layers.attention import Attention
from timm.layers.mlp import Mlp
from torch import Tensor, nn

from methods.schedule import CHANNEL, HEAD


class UnsupportedModelError(TypeError):
    """The model has no transformer blocks, or blocks whose units cannot be told apart."""


@dataclass(frozen=True)
class UnitSlice:
    """How one parameter is cut into units along one dimension, read as [blocks, units, size].

    The joint qkv weight has three blocks (q of all heads, then k, then v) of head_dim rows.
    """

    parameter: str
    """Name inside the layer's module, e.g. `qkv.weight`."""
    dim: int
    blocks: int
    size: int
    is_output: bool
    """Whether these are the unit's output weights (split by a clone) or producing parameters."""

    def split(self, tensor: Tensor) -> Tensor:
        """View with a unit axis at `dim + 1`: [..., blocks, units, size, ...]."""
        units = tensor.shape[self.dim] // (self.blocks * self.size)
        return tensor.unflatten(self.dim, (self.blocks, units, self.size))

    def join(self, tensor: Tensor) -> Tensor:
        """The inverse of `split`."""
        return tensor.flatten(self.dim, self.dim + 2)

    @property
    def unit_axis(self) -> int:
        return self.dim + 1


@dataclass(frozen=True)
class UnitLayer:
    """The units of one type in one block."""

    unit_type: str
    name: str
    """Qualified name of the module, e.g. `blocks.3.attn`."""
    module: nn.Module
    slices: tuple[UnitSlice, ...]
    consumer: str
    """Name of the linear map that reads the unit activations (`proj`, `fc2`)."""
    unit_size: int
    """Features of one unit in the consumer's input: head_dim, or 1."""
    multiple: int = 1
    """What physical widths are rounded up to; the units beyond `width` are padding."""

    @property
    def width(self) -> int:
        """Units of the layer now, padding apart."""
        return self._reader.in_features // self.unit_size

    @property
    def physical_width(self) -> int:
        """Units that the tensors hold now, padding included."""
        return self._reader.weight.shape[1] // self.unit_size

    def capacity(self, width: int) -> int:
        """Units that tensors hold for `width` of them."""
        return width + -width % self.multiple

    @property
    def _reader(self) -> nn.Linear:
        return cast(nn.Linear, self.module.get_submodule(self.consumer))

    def cuts(self) -> Iterator[tuple[UnitSlice, nn.Parameter]]:
        """The layer's slices with the parameters that they cut."""
        for cut in self.slices:
            yield cut, self.module.get_parameter(cut.parameter)


class HeadlessAttention(Attention):
    """Attention without heads: the output-projection bias at every token.

    An attention layer takes this class in place (`Attention.__class__`) when its last head
    goes: names, hooks and tensors stay, and no kernel is asked for zero heads.
    """

    def forward(self, x: Tensor, *_args: object, **_kwargs: object) -> Tensor:
        return self.proj_drop(self.proj(x[..., :0]))


def find_layers(
    model: nn.Module, pad_channels: int = 1
) -> tuple[tuple[UnitLayer, ...], tuple[UnitLayer, ...]]:
    """Head layers and channel layers of every transformer block, in order of depth.

    Args:
        pad_channels: multiple that physical FFN widths are rounded up to when they change.

    Raises:
        UnsupportedModelError: no block with timm's `Attention` and `Mlp`, or one whose
            attention is gated or normalised before its projection, or whose FFN is; or padding
            for an activation that does not map zero to zero.
    """
    heads, channels = [], []
    for name, block in model.named_modules():
        attention, ffn = getattr(block, "attn", None), getattr(block, "mlp", None)
        if isinstance(attention, Attention) and isinstance(ffn, Mlp):
            heads.append(_head_layer(f"{name}.attn".lstrip("."), attention))
            channels.append(_channel_layer(f"{name}.mlp".lstrip("."), ffn, pad_channels))
    if not heads:
        raise UnsupportedModelError(
            f"{type(model).__name__} has no block with timm's Attention as .attn and Mlp as .mlp"
        )
    return tuple(heads), tuple(channels)


def set_width(layer: UnitLayer, width: int) -> None:
    """Tell the layer's modules that their tensors now hold `width` units (and their padding)."""
    features = width * layer.unit_size
    cast(nn.Linear, layer.module.get_submodule(layer.consumer)).in_features = features
    if layer.unit_type == HEAD:
        attention = cast(Attention, layer.module)
        attention.num_heads = width
        attention.attn_dim = features
        attention.qkv.out_features = 3 * features
        attention.__class__ = Attention if width else HeadlessAttention
    else:
        cast(nn.Linear, layer.module.get_submodule("fc1")).out_features = features


def _head_layer(name: str, attention: Attention) -> UnitLayer:
    if getattr(attention, "gate", None) is not None or not isinstance(attention.norm, nn.Identity):
        raise UnsupportedModelError(f"{name}: gated or pre-projection-normalised attention")
    size = attention.head_dim
    slices = [
        UnitSlice("qkv.weight", dim=0, blocks=3, size=size, is_output=False),
        UnitSlice("proj.weight", dim=1, blocks=1, size=size, is_output=True),
    ]
    if attention.qkv.bias is not None:
        slices.insert(1, UnitSlice("qkv.bias", dim=0, blocks=3, size=size, is_output=False))
    return UnitLayer(HEAD, name, attention, tuple(slices), consumer="proj", unit_size=size)


def _channel_layer(name: str, ffn: Mlp, multiple: int) -> UnitLayer:
    if not isinstance(ffn.norm, nn.Identity) or not isinstance(ffn.fc1, nn.Linear):
        raise UnsupportedModelError(f"{name}: normalised or convolutional FFN")
    if multiple > 1 and ffn.act(ffn.fc1.weight.new_zeros(1)).item():
        raise UnsupportedModelError(f"{name}: its activation of zero is not zero: no padding")
    slices = [
        UnitSlice("fc1.weight", dim=0, blocks=1, size=1, is_output=False),
        UnitSlice("fc2.weight", dim=1, blocks=1, size=1, is_output=True),
    ]
    if ffn.fc1.bias is not None:
        slices.insert(1, UnitSlice("fc1.bias", dim=0, blocks=1, size=1, is_output=False))
    return UnitLayer(CHANNEL, name, ffn, tuple(slices), "fc2", unit_size=1, multiple=multiple)
