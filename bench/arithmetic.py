"""An Execution in torch's terms. What is not asked for is not there: a step by default enters no
context, and scales, compiles and converts nothing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.compilation import CompiledBlocks
from bench.execution import Execution

Forward = Callable[[Tensor], Tensor]
"""Images [B, 3, H, W] to logits [B, classes]."""

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def autocast(execution: Execution, device: torch.device) -> AbstractContextManager:
    """Around forward pass and loss."""
    if execution.autocast == "none":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[execution.autocast])


def attention(execution: Execution) -> AbstractContextManager:
    """Around forward and backward pass. Inside, an attention that the backend cannot do raises
    RuntimeError."""
    if execution.attention == "auto":
        return nullcontext()
    return sdpa_kernel(_BACKENDS[execution.attention])


def loss_scaler(execution: Execution, device: torch.device) -> GradScaler:
    """Dynamic loss scaling for fp16; for all else one that does nothing."""
    return GradScaler(device.type, enabled=execution.autocast == "fp16")


def loss_scale(scaler: GradScaler) -> float | Tensor:
    """The factor that the last loss was scaled by; a tensor, if any, stays on the device."""
    scale = scaler._get_scale_async() if scaler.is_enabled() else None
    return 1.0 if scale is None else scale


def forward_of(execution: Execution, model: nn.Module) -> Forward:
    """The model as the execution calls it."""
    return CompiledBlocks(model) if execution.compile else model
