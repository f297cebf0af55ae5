"""What a model is made of, and what it costs in closed form. No torch: `bench plan` runs on this.

MACs are *algorithmic* (specification, section 9): every product of the executed graph once, the
attention's backward as four products, whatever a fused kernel recomputes. Parameters are all that
are stored, biases and norms included. Both depend on the totals of active heads and channels
alone, not on which layers they sit in.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

from methods.budget import TransformerShape

IMAGE_CHANNELS = 3


@dataclass(frozen=True)
class ModelShape(ABC):
    """A whole image classifier: transformer blocks and everything around them.

    Subclasses say what stands before and after the blocks. `heads` and `channels` are always
    totals over all layers; MACs are per image.
    """

    blocks: TransformerShape
    image_size: int
    """Height and width of the square input, in pixels."""
    classes: int

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens that every block sees, a class token included."""

    @property
    @abstractmethod
    def first_layer_macs(self) -> int:
        """Forward MACs of the layer that reads the image; nobody needs its input gradient."""

    @abstractmethod
    def outside_macs(self) -> int:
        """Forward MACs of everything outside the blocks, the first layer included."""

    @abstractmethod
    def outside_parameters(self) -> int:
        """Parameters of everything outside the blocks."""

    def macs_forward(self, heads: int, channels: int) -> int:
        """Multiply-accumulates of one image's forward pass."""
        width, head_dim, tokens = self.blocks.width, self.blocks.head_dim, self.tokens
        projections = 4 * tokens * width * head_dim  # q, k, v and the output projection
        attention = 2 * tokens * tokens * head_dim  # scores, and the weighted sum of the values
        ffn = 2 * tokens * width
        return heads * (projections + attention) + channels * ffn + self.outside_macs()

    def macs_training(self, heads: int, channels: int) -> int:
        """Multiply-accumulates of one image's forward and backward pass.

        Every product has two in the backward pass (one for each factor's gradient), except
        that of the image with the first layer's weights, which has one.
        """
        return 3 * self.macs_forward(heads, channels) - self.first_layer_macs

    def parameters(self, heads: int, channels: int) -> int:
        """Parameters that the model stores with this many active units."""
        b = self.blocks
        units = heads * (b.head_weights + b.head_biases)
        units += channels * (b.channel_weights + b.channel_biases)
        # Output biases of attention and FFN, and weight and bias of the two norms of a layer.
        return units + b.layers * (2 * b.width + 4 * b.width) + self.outside_parameters()

    def _classifier_parameters(self) -> int:
        """Final norm and classifier."""
        return 2 * self.blocks.width + (self.blocks.width + 1) * self.classes


@dataclass(frozen=True)
class VitShape(ModelShape):
    """Patch embedding, class token, learnable positions (timm's VisionTransformer)."""

    patch_size: int

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2

    @property
    def tokens(self) -> int:
        return self.patches + 1

    @property
    def first_layer_macs(self) -> int:
        return self.patches * self._patch_values * self.blocks.width

    def outside_macs(self) -> int:
        return self.first_layer_macs + self.blocks.width * self.classes

    def outside_parameters(self) -> int:
        embedding = (self._patch_values + 1) * self.blocks.width
        class_token_and_positions = (1 + self.tokens) * self.blocks.width
        return embedding + class_token_and_positions + self._classifier_parameters()

    @property
    def _patch_values(self) -> int:
        return IMAGE_CHANNELS * self.patch_size**2


@dataclass(frozen=True)
class CctShape(ModelShape):
    """Convolutional tokenizer, learnable positions, sequence pooling (CCT).

    The tokenizer repeats: 3x3 convolution (stride 1, padding 1, no bias), ReLU, 3x3 max-pool
    (stride 2, padding 1). The last convolution has as many filters as the blocks are wide.
    """

    hidden_filters: tuple[int, ...] = ()
    """Filters of the convolutions before the last one; empty where there is one convolution."""

    KERNEL = 3

    @property
    def filters(self) -> tuple[int, ...]:
        """Channels from the image to the tokens: of each convolution's input, then the output."""
        return (IMAGE_CHANNELS, *self.hidden_filters, self.blocks.width)

    @property
    def tokens(self) -> int:
        return self._resolutions()[-1] ** 2

    @property
    def first_layer_macs(self) -> int:
        return self._convolution_macs()[0]

    def outside_macs(self) -> int:
        pooling = 2 * self.tokens * self.blocks.width  # one score per token, then the weighted sum
        return sum(self._convolution_macs()) + pooling + self.blocks.width * self.classes

    def outside_parameters(self) -> int:
        convolutions = sum(self.KERNEL**2 * i * o for i, o in pairwise(self.filters))
        positions = self.tokens * self.blocks.width
        pooling = self.blocks.width + 1
        return convolutions + positions + pooling + self._classifier_parameters()

    def _resolutions(self) -> list[int]:
        """Side length before each convolution, and after the last pooling."""
        sizes = [self.image_size]
        for _ in pairwise(self.filters):
            sizes.append((sizes[-1] - 1) // 2 + 1)  # a convolution keeps it, a pooling halves it
        return sizes

    def _convolution_macs(self) -> list[int]:
        return [
            size**2 * self.KERNEL**2 * inputs * outputs
            for size, (inputs, outputs) in zip(
                self._resolutions(), pairwise(self.filters), strict=False
            )
        ]
