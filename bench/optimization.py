"""Optimizer, learning rate and weight decay of a run, as its recipe says."""

from math import cos, pi

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Adam, Optimizer

from bench.workloads.recipes import Recipe


def make_optimizer(
    model: nn.Module, recipe: Recipe, device: torch.device, implementation: str = "fused"
) -> Optimizer:
    """Adam on every parameter, without decay of its own.

    Args:
        implementation: `fused` (where torch has it for the device), `foreach` or `loop`.
    """
    chosen = {
        "fused": {"fused": True if device.type in ("cpu", "cuda") else None},
        "foreach": {"foreach": True},
        "loop": {"foreach": False},
    }
    return Adam(
        model.parameters(),
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.eps,
        **chosen[implementation],
    )


def learning_rate(recipe: Recipe, step: int, total_steps: int) -> float:
    """Of one step (1-based): linear warm-up, then cosine from the peak towards the final rate."""
    warm_up = recipe.warm_up_steps(total_steps)
    peak, final = recipe.learning_rate, recipe.final_learning_rate
    if step <= warm_up:
        return peak * step / warm_up
    progress = (step - 1 - warm_up) / (total_steps - warm_up)
    return final + (peak - final) * (1 + cos(pi * progress)) / 2


def step_with_decay(optimizer: Optimizer, recipe: Recipe, rate: float, scaler: GradScaler) -> None:
    """One optimizer step with explicit decoupled weight decay before or after it.

    p <- (1 - rate * weight_decay) p on every parameter, biases and norms included
    (specification, section 7). Entries that a method holds at zero stay zero.

    Args:
        scaler: whose scale the gradients carry. Where they overflowed it leaves the Adam step out.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    if recipe.decay_order == "before":
        _decay(optimizer, recipe, rate)
    scaler.step(optimizer)
    scaler.update()
    if recipe.decay_order == "after":
        _decay(optimizer, recipe, rate)


@torch.no_grad()
def _decay(optimizer: Optimizer, recipe: Recipe, rate: float) -> None:
    if recipe.weight_decay:
        trained = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        factor = 1 - rate * recipe.weight_decay
        torch._foreach_mul_(trained, factor)  # pyright: ignore[reportPrivateImportUsage]
