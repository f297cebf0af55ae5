"""How long the operators of a step take at a card's peaks: the larger of arithmetic and traffic.

Arithmetic is that of matrix products, as `bench.measure.mac_rules` counts them. Traffic is what an
operator reads and writes, once each, as if nothing stayed in a cache from one operator to the next
(where it does, a step of small tensors may beat this). What it costs the host to launch an operator
is not in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from bench.measure.mac_rules import RULES, count_operator
from bench.measure.macs import qualified_name
from bench.predict.cards import Card

FLOPS_PER_MAC = 2

_MAKES_NO_TRAFFIC = {
    *("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::empty_permuted"),
    *("aten::new_empty", "aten::new_empty_strided", "aten::resize", "aten::set"),
    *("aten::_local_scalar_dense", "aten::lift_fresh"),
}
"""They compute nothing: they make room, or tell what there is."""
_WRITES_ONLY = {
    *("aten::copy", "aten::zero", "aten::fill", "aten::bernoulli", "aten::normal"),
    *("aten::uniform", "aten::random"),
}
"""Their in-place forms do not read what they overwrite."""
_LIKE = {
    *("aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::rand_like"),
    *("aten::randn_like", "aten::new_zeros", "aten::new_ones", "aten::new_full"),
}
"""They read the shape of their argument alone."""
_PRECISIONS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


@dataclass(frozen=True)
class OperatorCost:
    """One executed operator that does something."""

    name: str
    macs: int
    """Of matrix products, repeated ones among them."""
    moved_bytes: int
    """Read and written."""
    precision: str
    """Of its products: `fp32`, `tf32`, `bf16` or `fp16`."""


class OperatorCosts(TorchDispatchMode):
    """Notes while active what every operator multiplies and moves.

    Args:
        tf32: whether products of float32 matrices run in TF32.
    """

    supports_higher_order_operators = True

    def __init__(self, tf32: bool) -> None:
        super().__init__()
        self._tf32 = tf32
        self.costs: list[OperatorCost] = []

    @property
    def moved_bytes(self) -> int:
        return sum(cost.moved_bytes for cost in self.costs)

    @property
    def attention_kernel(self) -> str:
        """The backend that attention ran in: `math`, which is no operator, where no other did."""
        for cost in self.costs:
            _, fused, backend = cost.name.partition("_scaled_dot_product_")
            if fused:
                return backend.split("_attention")[0]
        return "math"

    def milliseconds(self, card: Card) -> float:
        """Of all operators, one after the other, each at the card's peaks."""
        return 1000 * sum(
            max(
                card.seconds_of_flops(FLOPS_PER_MAC * cost.macs, cost.precision),
                card.seconds_of_traffic(cost.moved_bytes),
            )
            for cost in self.costs
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(func, OpOverload):
            self._note(func, args, kwargs, result)
        return result

    def _note(self, func: OpOverload, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        name = qualified_name(func)
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        moved = 0 if name in _MAKES_NO_TRAFFIC else moved_bytes(func, given, result)
        macs = sum(count_operator(name, given, result)) if name in RULES else 0
        if moved or macs:
            self.costs.append(OperatorCost(name, macs, moved, self._precision(given)))

    def _precision(self, given: dict[str, Any]) -> str:
        floats = (t.dtype for t in _tensors(given) if t.dtype.is_floating_point)
        known = _PRECISIONS.get(next(floats, torch.float32), "fp32")
        return "tf32" if known == "fp32" and self._tf32 else known


def moved_bytes(func: OpOverload, given: dict[str, Any], result: Any) -> int:
    """Bytes that an operator reads and writes; 0 for a view.

    Args:
        given: its arguments by name.
        result: what it returned.
    """
    written = [
        tensor
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(given.get(argument.name))
    ]
    storages = {tensor.untyped_storage()._cdata for tensor in _tensors(given)}
    made = [t for t in _tensors(result) if t.untyped_storage()._cdata not in storages]
    if not written and not made:
        return 0
    name = qualified_name(func)
    overwritten = written if name in _WRITES_ONLY else []
    sources = () if name in _LIKE else _distinct(given)
    read = [t for t in sources if not any(t is o for o in overwritten)]
    return sum(map(_bytes, (*read, *written, *made)))


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (cast(Tensor, leaf) for leaf in tree_iter(tree) if isinstance(leaf, Tensor))


def _distinct(tree: Any) -> Iterator[Tensor]:
    seen = set()
    for tensor in _tensors(tree):
        key = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape)
        if key not in seen:
            seen.add(key)
            yield tensor


def _bytes(tensor: Tensor) -> int:
    """Of the entries that differ: an expanded dimension is read once."""
    entries = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        entries *= size if stride else min(size, 1)
    return entries * tensor.element_size()
