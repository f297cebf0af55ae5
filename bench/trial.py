"""`python -m bench.trial DEVICE EXECUTION`: whether a device can execute a step that way at all.

Exit code 1, and one line that says why, if it cannot.
"""

import json
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from bench.arithmetic import attention, autocast, loss_scaler
from bench.execution import Execution

_AMPERE = (8, 0)
"""Compute capability of the first GPUs with TF32 and bf16."""


def why_not(execution: Execution, device: torch.device) -> str:
    """Empty if a step of a tiny model went through."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _AMPERE:
        if execution.tf32:
            return "the GPU has no TF32"
        if execution.autocast == "bf16":
            return "the GPU has no bf16"
    try:
        loss = _step(execution, device)
    except (RuntimeError, NotImplementedError) as error:
        return " ".join(str(error).split())[:200]
    return "" if torch.isfinite(loss) else "the loss of a tiny model is not finite"


def _step(execution: Execution, device: torch.device) -> torch.Tensor:
    torch.manual_seed(0)
    cut = nn.Conv2d(3, 48, kernel_size=4, stride=4).to(device)
    head = nn.Linear(16, 10).to(device)
    parameters = [*cut.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, foreach=False)
    scaler = loss_scaler(execution, device)
    images = torch.randn(2, 3, 16, 16, device=device)
    with attention(execution):
        with autocast(execution, device):
            q, k, v = cut(images).flatten(2).transpose(1, 2).chunk(3, -1)
            tokens = scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
            targets = torch.zeros(2, dtype=torch.long, device=device)
            loss = cross_entropy(head(tokens.mean((1, 2))), targets)
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


if __name__ == "__main__":
    reason = why_not(Execution(**json.loads(sys.argv[2])), torch.device(sys.argv[1]))
    print(reason)
    sys.exit(bool(reason))
