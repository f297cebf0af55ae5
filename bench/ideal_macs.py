"""MACs that a step would need if nothing inactive were computed: what the topology asks for, beside
what was executed. No torch.
"""

from bench.workloads.shapes import ModelShape


def ideal_training_macs(
    shape: ModelShape, heads: int, channels: int, active: int, dense_gradient: bool
) -> int:
    """Per image, forward plus backward. Whole inactive units are left out of all products, single
    masked weights out of theirs.

    A dense gradient of single weights costs their matrices' gradient products in full. That of a
    unit that takes no part in the forward pass cannot be had without computing it: the whole dense
    step.

    Args:
        heads, channels: active units of the whole model.
        active: active parameters of the whole model.
    """
    if not dense_gradient:
        single = _single(shape, heads, channels, active)
        return shape.macs_training(heads, channels) - 3 * shape.tokens * single
    b = shape.blocks
    single = _single(shape, b.total_heads, b.total_channels, active)
    if (heads, channels) != (b.total_heads, b.total_channels):
        single = 0
    return shape.macs_training(b.total_heads, b.total_channels) - 2 * shape.tokens * single


def _single(shape: ModelShape, heads: int, channels: int, active: int) -> int:
    """Masked weights that do not belong to an inactive unit; every token meets each once. (With
    inactive units more may be active than a compact model stores: their biases, for one.)"""
    return max(0, shape.parameters(heads, channels) - active)
