"""The compact convolutional transformer (Hassani et al., arXiv 2104.05704) on timm's parts.

Two of its habits are easily got wrong: the norm before the FFN sits *on* the residual stream,
and in place of a class token the tokens are averaged with learned weights (sequence pooling).
"""

from itertools import pairwise

from timm.layers.attention import Attention
from timm.layers.drop import DropPath
from timm.layers.mlp import Mlp
from timm.layers.weight_init import trunc_normal_
from torch import Tensor, channels_last, empty, nn

from bench.workloads.shapes import CctShape

_POSITION_STD = 0.2
_LINEAR_STD = 0.02


class ConvTokenizer(nn.Module):
    """Images [B, 3, H, W] to tokens [B, N, width]: (convolution, ReLU, max-pool) repeated.

    Channels-last throughout, so that the tokens are contiguous without a copy. Otherwise the whole
    residual stream inherits a transposed layout, and every norm and product pays for it.
    """

    def __init__(self, shape: CctShape) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(shape.filters):
            layers += [
                nn.Conv2d(inputs, outputs, kernel_size=shape.KERNEL, padding=1, bias=False),
                nn.ReLU(),
                nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        images = images.contiguous(memory_format=channels_last)
        return self.layers(images).flatten(2).transpose(1, 2)


class CctBlock(nn.Module):
    """One encoder layer on tokens [B, N, width], with timm's names for attention and FFN."""

    def __init__(self, shape: CctShape, drop_path: float) -> None:
        super().__init__()
        blocks = shape.blocks
        self.pre_norm = nn.LayerNorm(blocks.width)
        self.attn = Attention(
            blocks.width, blocks.heads, attn_head_dim=blocks.head_dim, qkv_bias=blocks.qkv_bias
        )
        self.norm1 = nn.LayerNorm(blocks.width)
        self.mlp = Mlp(blocks.width, blocks.channels)
        self.drop_path = DropPath(drop_path) if drop_path > 0 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attn(self.pre_norm(x)))
        x = self.norm1(x)
        return x + self.drop_path(self.mlp(x))


class SequencePooling(nn.Module):
    """Tokens [B, N, width] to one vector [B, width]: their average, weighted by learned scores."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).softmax(dim=1)
        return (weights.transpose(1, 2) @ x).squeeze(1)


class Cct(nn.Module):
    """Maps images [B, 3, H, W] to logits [B, classes]; `blocks` and `head` as in timm's ViT."""

    def __init__(self, shape: CctShape, drop_path: float, position_std: float) -> None:
        super().__init__()
        width = shape.blocks.width
        self.tokenizer = ConvTokenizer(shape)
        self.pos_embed = nn.Parameter(empty(1, shape.tokens, width))
        last = max(1, shape.blocks.layers - 1)
        self.blocks = nn.Sequential(
            *(CctBlock(shape, drop_path * layer / last) for layer in range(shape.blocks.layers))
        )
        self.norm = nn.LayerNorm(width)
        self.pool = SequencePooling(width)
        self.head = nn.Linear(width, shape.classes)
        trunc_normal_(self.pos_embed, std=position_std)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        x = self.blocks(self.tokenizer(images) + self.pos_embed)
        return self.head(self.pool(self.norm(x)))


def build_cct(shape: CctShape, drop_path: float, position_std: float | None = None) -> Cct:
    """A dense CCT in float32 on the CPU, initialised from the global random state as published.

    No dropout anywhere; stochastic depth rises linearly from 0 to `drop_path` over the layers.
    `position_std` replaces the deviation (0.2) with which the positions are published.
    """
    return Cct(shape, drop_path, _POSITION_STD if position_std is None else position_std)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        trunc_normal_(module.weight, std=_LINEAR_STD)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight)
