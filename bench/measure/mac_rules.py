"""How many multiply-accumulates an operator needs, from the shapes it was called with.

One multiply-accumulate (MAC) is one product that is added up. Biases, softmax, scaling, norms and
element-wise products are none, nor is a contraction that torch itself runs as an element-wise
product and a sum (`linalg.vecdot`, some `einsum`). Counts are those of the dense mathematical
definition: a causal or masked attention counts in full, a convolution counts its padding. Counts
are linear in the batch.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

Arguments = Mapping[str, Any]
"""An operator's arguments by the names of its schema; missing where a default applies."""

Rule = Callable[[Arguments, Any], tuple[int, int]]
"""(arguments, result) -> (algorithmic MACs, MACs of products that were computed before)."""


class UnknownOperatorError(RuntimeError):
    """An operator that multiplies matrices, or might, and that no rule can count."""


def _matrices(left: str, right: str) -> Rule:
    """[..., m, k] by [..., k, n]: every element of the left meets n columns."""
    return lambda a, _: (a[left].numel() * a[right].shape[-1], 0)


def _elements(name: str) -> Rule:
    """Matrix by vector, or vector by vector: one product for each element of `name`."""
    return lambda a, _: (a[name].numel(), 0)


def _outer(a: Arguments, _: Any) -> tuple[int, int]:
    return a["vec1"].numel() * a["vec2"].numel(), 0


def _linear_product(inputs: Tensor, weight: Tensor) -> int:
    return inputs.numel() * (weight.shape[0] if weight.dim() == 2 else 1)


def _linear(a: Arguments, _: Any) -> tuple[int, int]:
    return _linear_product(a["input"], a["weight"]), 0


def _linear_backward(a: Arguments, _: Any) -> tuple[int, int]:
    return sum(a["output_mask"][:2]) * _linear_product(a["self"], a["weight"]), 0


def _convolution_product(a: Arguments, output: Tensor) -> int:
    """Each kernel position, of all channels of its group, once per point of the *small* side.

    A transposed convolution is the gradient of an ordinary one, so there the points are those of
    its input. The weight is [out, in / groups, ...] or, transposed, [in, out / groups, ...]: its
    number of elements already respects the groups; the points respect stride and dilation.
    """
    points = a["input"] if a["transposed"] else output
    return points.shape[0] * math.prod(points.shape[2:]) * a["weight"].numel()


def _convolution(a: Arguments, result: Tensor) -> tuple[int, int]:
    return _convolution_product(a, result), 0


def _convolution_backward(a: Arguments, _: Any) -> tuple[int, int]:
    """Input and weight gradient need as many products as the forward pass, each if asked for."""
    return sum(a["output_mask"][:2]) * _convolution_product(a, a["grad_output"]), 0


_VARIABLE_LENGTHS = (("cum_seq_q", "cum_seq_k"), ("cu_seqlens_q", "cu_seqlens_k"))
_PARTLY_USED_KEYS = ("seqlen_k", "seqused_k", "block_table")


def _lengths(offsets: Tensor) -> list[int]:
    if isinstance(offsets, FakeTensor) or offsets.device.type == "meta":
        raise UnknownOperatorError("attention over sequences whose lengths are not real numbers")
    return offsets.diff().tolist()


def _head_pairs(a: Arguments, tokens_first: bool, variable: bool) -> int:
    """Query-key pairs, summed over batch and query heads."""
    query, key = a["query"], a["key"]
    used = [name for name in _PARTLY_USED_KEYS if a.get(name) is not None]
    if used:
        raise UnknownOperatorError(f"attention with {', '.join(used)} has no MAC rule")
    for names in _VARIABLE_LENGTHS if variable else ():
        of_query, of_key = (a.get(name) for name in names)
        if of_query is not None and of_key is not None:
            pairs = zip(_lengths(of_query), _lengths(of_key), strict=True)
            return query.shape[-2] * sum(q * k for q, k in pairs)
    heads, tokens = (-2, -3) if tokens_first else (-3, -2)
    return query.shape[0] * query.shape[heads] * query.shape[tokens] * key.shape[tokens]


def _attention(tokens_first: bool = False, variable: bool = False) -> Rule:
    """Two products: scores (query width) and output (value width).

    Args:
        tokens_first: [batch, tokens, heads, width] instead of [batch, heads, tokens, width].
        variable: whether offsets among the arguments mean packed sequences, [tokens, heads, width].
    """

    def rule(a: Arguments, _: Any) -> tuple[int, int]:
        pairs = _head_pairs(a, tokens_first, variable)
        return pairs * (a["query"].shape[-1] + a["value"].shape[-1]), 0

    return rule


def _attention_backward(tokens_first: bool = False, variable: bool = False) -> Rule:
    """Four products, and the scores a second time, which the fused forward did not keep.

    The gradients of value and of the weights have the value's width, those of query and key the
    query's. Where the operator says which gradients it needs, only those are counted.
    """

    def rule(a: Arguments, _: Any) -> tuple[int, int]:
        query, key, value, bias = a.get("grad_input_mask", (True, True, True, False))
        pairs = _head_pairs(a, tokens_first, variable)
        width, value_width = a["query"].shape[-1], a["value"].shape[-1]
        of_weights = query or key or bias
        algorithmic = value_width * (value + of_weights) + width * (query + key)
        recomputed = width if value or of_weights else 0
        return pairs * algorithmic, pairs * recomputed

    return rule


_MATRIX_RULES: dict[str, Rule] = {
    "mm": _matrices("self", "mat2"),
    "_int_mm": _matrices("self", "mat2"),
    "_scaled_mm": _matrices("self", "mat2"),
    "addmm": _matrices("mat1", "mat2"),
    "_addmm_activation": _matrices("mat1", "mat2"),
    "bmm": _matrices("self", "mat2"),
    "baddbmm": _matrices("batch1", "batch2"),
    "addbmm": _matrices("batch1", "batch2"),
    "mv": _elements("self"),
    "addmv": _elements("mat"),
    "dot": _elements("self"),
    "vdot": _elements("self"),
    "addr": _outer,
    # Composite on CPU and CUDA, an operator of its own on MPS and in inference mode.
    "linear": _linear,
    "linear_backward": _linear_backward,
    "convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
    "convolution_backward_overrideable": _convolution_backward,
}

_FUSED = (
    "flash_attention_for_cpu",
    "flash_attention",
    "efficient_attention",
    "cudnn_attention",
    "fused_attention_overrideable",
)

_ATTENTION_RULES: dict[str, Rule] = {
    "_scaled_dot_product_attention_math_for_mps": _attention(),
    **{f"_scaled_dot_product_{name}": _attention() for name in _FUSED},
    **{f"_scaled_dot_product_{name}_backward": _attention_backward() for name in _FUSED},
    "_flash_attention_forward": _attention(tokens_first=True, variable=True),
    "_flash_attention_forward_no_dropout_inplace": _attention(tokens_first=True, variable=True),
    "_flash_attention_backward": _attention_backward(tokens_first=True, variable=True),
    "_efficient_attention_forward": _attention(tokens_first=True, variable=True),
    "_efficient_attention_backward": _attention_backward(tokens_first=True, variable=True),
    "_cudnn_attention_forward": _attention(variable=True),
    "_cudnn_attention_backward": _attention_backward(variable=True),
}

RULES: dict[str, Rule] = {
    f"aten::{name}": rule for name, rule in (_MATRIX_RULES | _ATTENTION_RULES).items()
}
"""By qualified name without overload; in-place operators share their rule with the plain one."""


def count_operator(name: str, arguments: Arguments, result: Any) -> tuple[int, int]:
    """MACs of one call, (algorithmic, recomputed). Raises UnknownOperatorError for operands whose
    shape does not say how much is multiplied: sparse, nested and opaque ones."""
    for operand in _tensors(arguments.values()):
        if operand.layout != torch.strided or operand.is_nested:
            raise UnknownOperatorError(f"{name} on a {operand.layout} operand has no MAC rule")
    return RULES[name](arguments, result)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    return [value for value in values if isinstance(value, Tensor)]
