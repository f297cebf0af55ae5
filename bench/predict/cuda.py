"""What CUDA does otherwise than a CPU, done on fake CPU tensors: which attention kernel runs, and
what autocast keeps in float32.

torch's autograd aborts on fake CUDA tensors where it was built without CUDA. All else in a step is
the same operators with the same shapes on both; these are called explicitly.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, layer_norm, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

MATH = "math"

_HALF = (torch.bfloat16, torch.float16)
_SAFE = (
    *(layer_norm, cross_entropy),
    *(torch.softmax, Tensor.softmax, torch.nn.functional.softmax),
    *(torch.log_softmax, Tensor.log_softmax, torch.nn.functional.log_softmax),
    *(torch.exp, Tensor.exp, torch.pow, Tensor.pow, Tensor.__pow__, torch.log, Tensor.log),
    *(torch.sum, Tensor.sum, torch.cumsum, Tensor.cumsum, torch.prod, Tensor.prod),
)
"""Of what CUDA's autocast computes in float32 and a CPU's does not, all that our models call."""


def kernel_on_cuda(asked: str, autocast: str) -> str:
    """The backend of attention that torch takes on a GPU, for attention without a mask.

    Args:
        asked: `auto`, `math`, `flash`, `efficient` or `cudnn`.
        autocast: `none`, `bf16` or `fp16`. flash exists in half precision alone.
    """
    if asked != "auto":
        return asked
    return "efficient" if autocast == "none" else "flash"


class AsOnCuda(TorchFunctionMode):
    """Runs attention in a CUDA kernel, and autocast as on CUDA, while active.

    Args:
        kernel: `math`, `flash`, `efficient` or `cudnn`; the last three compute no matrix of
            weights for backward.
    """

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self._attention = _KERNELS.get(kernel)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention and self._attention:
            return self._attend(*args, **kwargs)
        if func in _SAFE and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                return func(*map(_in_float32, args), **_all_in_float32(kwargs))
        return func(*args, **kwargs)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_more: Any,
    ) -> Tensor:
        assert self._attention is not None
        assert attn_mask is None, "no model here masks attention"
        if torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
            query, key, value = (tensor.to(dtype) for tensor in (query, key, value))
        with torch.autocast("cpu", enabled=False):
            return self._attention(query, key, value, dropout_p, is_causal)


def _in_float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALF else value


def _all_in_float32(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _in_float32(value) for name, value in values.items()}


def _efficient(q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool) -> Tensor:
    keeps = any(tensor.requires_grad for tensor in (q, k, v)) and torch.is_grad_enabled()
    operator = torch.ops.aten._scaled_dot_product_efficient_attention
    return operator(q, k, v, None, keeps, dropout, causal)[0]


def _flash(q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool) -> Tensor:
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal)[0]


def _cudnn(q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool) -> Tensor:
    keeps = any(tensor.requires_grad for tensor in (q, k, v)) and torch.is_grad_enabled()
    operator = torch.ops.aten._scaled_dot_product_cudnn_attention
    return operator(q, k, v, None, keeps, dropout, causal)[0]


_KERNELS: dict[str, Callable[[Tensor, Tensor, Tensor, float, bool], Tensor]] = {
    "efficient": _efficient,
    "flash": _flash,
    "cudnn": _cudnn,
}
