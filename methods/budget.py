"""How many heads and channels a density buys (specification, section 5). Pure functions, no torch.

The compact model gets as many active parameters as a masked model of the same density,
which masks weight matrices and keeps every bias.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from methods.rounding import exact, round_half_up


class BudgetError(ValueError):
    """The density buys too little for this model."""


@dataclass(frozen=True)
class TransformerShape:
    """The prunable part of a transformer: what a unit costs depends on these numbers alone."""

    layers: int
    width: int
    heads: int
    """Heads per layer of the dense model."""
    head_dim: int
    channels: int
    """FFN channels per layer of the dense model."""
    qkv_bias: bool

    @property
    def total_heads(self) -> int:
        return self.layers * self.heads

    @property
    def total_channels(self) -> int:
        return self.layers * self.channels

    @property
    def head_weights(self) -> int:
        """Weight entries of one head: its q, k, v rows and its output-projection columns."""
        return 4 * self.width * self.head_dim

    @property
    def head_biases(self) -> int:
        return 3 * self.head_dim if self.qkv_bias else 0

    @property
    def channel_weights(self) -> int:
        """Weight entries of one channel: its row of fc1 and its column of fc2."""
        return 2 * self.width

    @property
    def channel_biases(self) -> int:
        return 1


@dataclass(frozen=True)
class UnitBudget:
    """Active units of the whole model; both totals stay fixed for the whole run."""

    heads: int
    channels: int

    def parameters(self, shape: TransformerShape) -> int:
        """Parameters that these units own (weights and unit biases)."""
        head = shape.head_weights + shape.head_biases
        channel = shape.channel_weights + shape.channel_biases
        return self.heads * head + self.channels * channel


def attention_budget(shape: TransformerShape, density: float | Fraction) -> Fraction:
    """Active attention parameters of a masked model of this density (A)."""
    return shape.total_heads * (exact(density) * shape.head_weights + shape.head_biases)


def ffn_budget(shape: TransformerShape, density: float | Fraction) -> Fraction:
    """Active FFN parameters of a masked model of this density (F)."""
    return shape.total_channels * (exact(density) * shape.channel_weights + shape.channel_biases)


def unit_budget(shape: TransformerShape, density: float) -> UnitBudget:
    """Heads and channels for `density` in (0, 1].

    Raises:
        BudgetError: density outside (0, 1], or less than one head per model or one channel
            per layer. The message names the number and the smallest density that works.
    """
    if not 0 < density <= 1:
        raise BudgetError(f"density {density} is outside (0, 1]")
    budget = _counts(shape, exact(density))
    if not _is_valid(shape, budget):
        raise BudgetError(
            f"density {density} buys {budget.heads} heads and {max(0, budget.channels)} channels;"
            f" at least 1 head in the model and 1 channel in each of {shape.layers} layers are"
            f" needed (densities from {smallest_density(shape)} on work)"
        )
    return budget


def smallest_density(shape: TransformerShape) -> float:
    """The smallest density, in thousandths, from which on every one buys a valid budget."""
    works = 1000
    while works > 1 and _is_valid(shape, _counts(shape, Fraction(works - 1, 1000))):
        works -= 1
    return works / 1000


def _is_valid(shape: TransformerShape, budget: UnitBudget) -> bool:
    return budget.heads >= 1 and budget.channels >= shape.layers


def _counts(shape: TransformerShape, rho: Fraction) -> UnitBudget:
    head = shape.head_weights + shape.head_biases
    channel = shape.channel_weights + shape.channel_biases
    attention = attention_budget(shape, rho)
    heads = round_half_up(attention / head)
    channels = floor((attention + ffn_budget(shape, rho) - heads * head) / channel)
    # Near density 1, heads rounded down can leave more than all channels cost (chosen: cap).
    return UnitBudget(heads=heads, channels=min(channels, shape.total_channels))


def spread(total: int, layers: int) -> tuple[int, ...]:
    """`total` units over `layers` as equally as possible; the remainder spread evenly over depth.

    Chosen: of r left-over units the k-th (from 0) goes to layer floor((k + 1/2) layers / r).
    """
    base, remainder = divmod(total, layers)
    extra = {(2 * k + 1) * layers // (2 * remainder) for k in range(remainder)}
    return tuple(base + (layer in extra) for layer in range(layers))
