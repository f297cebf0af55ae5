"""How a density is spread over weight matrices (baselines page, section 1). Pure functions, no
torch.

Shapes are those of the weight tensors; all their dimensions count, kernels of a convolution too.
Sizes are numbers of entries. Everything is float64 and in the order in which the official codes
compute it: counts depend on the last bit.
"""

from collections.abc import Collection, Sequence
from math import floor, prod

from methods.budget import BudgetError

Shape = Sequence[int]


def uniform_sparsities(
    sizes: Sequence[int], density: float, kept_dense: Collection[int] = ()
) -> list[float]:
    """The same sparsity for every layer but the kept-dense ones, which the others pay for.

    Where the others cannot pay (their sparsity would exceed 1) they get 1 - density.
    """
    _require_density(density)
    total = sum(sizes)
    dense = sum(sizes[layer] for layer in kept_dense)
    sparsity = 1 - density
    if 0 < dense < total:
        paying = 1 - (density * total - dense) / (total - dense)
        sparsity = paying if paying <= 1 else sparsity
    return [0.0 if layer in kept_dense else sparsity for layer in range(len(sizes))]


def erk_densities(
    shapes: Sequence[Shape],
    density: float,
    kept_dense: Collection[int] = (),
    integer: bool = True,
) -> list[float]:
    """Erdos-Renyi-kernel densities: proportional to sum(shape) / prod(shape), at most 1.

    Layers that would exceed 1 become dense and the rest shares what is left.

    Args:
        kept_dense: layers that are dense from the start, so that the rest gets sparser.
        integer: zeros of a layer are floor((1 - density) entries), as google-research and
            condensed-sparsity count; otherwise real numbers, as ITOP and SViTE count.
    """
    _require_density(density)
    sizes = [prod(shape) for shape in shapes]
    raw = [sum(shape) / size for shape, size in zip(shapes, sizes, strict=True)]
    zeros = [floor((1 - density) * n) if integer else (1 - density) * n for n in sizes]
    ones = [n - z if integer else density * n for n, z in zip(sizes, zeros, strict=True)]
    dense = set(kept_dense)
    while len(dense) < len(shapes):
        sparse = [layer for layer in range(len(shapes)) if layer not in dense]
        left = sum(ones[layer] for layer in sparse) - sum(zeros[layer] for layer in dense)
        scale = left / sum(raw[layer] * sizes[layer] for layer in sparse)
        largest = max(raw[layer] for layer in sparse)
        if scale * largest <= 1:
            if scale <= 0:
                raise BudgetError(f"the dense layers alone exceed density {density}")
            return [1.0 if layer in dense else scale * raw[layer] for layer in range(len(shapes))]
        dense |= {layer for layer in sparse if raw[layer] == largest}
    return [1.0] * len(shapes)


def layer_sparsities(shapes: Sequence[Shape], density: float, distribution: str) -> list[float]:
    """Sparsity of each layer under a distribution by name: `uniform`, `erk` or `erk-float`.

    Raises:
        BudgetError: density outside (0, 1].
        ValueError: no such distribution.
    """
    if distribution == "uniform":
        return uniform_sparsities([prod(shape) for shape in shapes], density)
    if distribution not in ("erk", "erk-float"):
        raise ValueError(f"distribution is {distribution!r}, not uniform, erk or erk-float")
    densities = erk_densities(shapes, density, integer=distribution == "erk")
    return [1 - value for value in densities]


def active_count(size: int, sparsity: float) -> int:
    """Active entries of an unstructured start mask: the zeros are truncated, int(S N)."""
    return size - int(sparsity * size)


def connection_capacity(size: int, sparsity: float) -> int:
    """Entries that SRigL may spend on a layer: int(N (1 - S)), in float64 exactly as written.

    At density 0.1 and 1440 entries 1 - 0.9 is a little below 0.1, so this is 143.
    """
    return int(size * (1 - sparsity))


def constant_fan_in(rows: int, size: int, sparsity: float) -> int:
    """Active inputs of every row at SRigL's start; the remainder of the division is lost.

    Raises:
        BudgetError: not one connection per row.
    """
    capacity = connection_capacity(size, sparsity)
    if capacity < rows:
        raise BudgetError(
            f"sparsity {sparsity:.6g} leaves {capacity} connections for {rows} rows of"
            f" {size // rows}: a constant fan-in of at least 1 needs {rows}"
        )
    return capacity // rows


def _require_density(density: float) -> None:
    if not 0 < density <= 1:
        raise BudgetError(f"density {density} is outside (0, 1]")
