"""Optimizer, learning rate and weight decay of a run, as its recipe says."""

from math import cos, pi

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Adam, Optimizer

from bench.workloads.recipes import Recipe


def make_optimizer(
    model: nn.Module,
    recipe: Recipe,
    device: torch.device,
    implementation: str = "fused",
    recorded: bool = False,
) -> Optimizer:
    """Adam on every parameter, without decay of its own.

    Args:
        implementation: `fused` (where torch has it for the device), `foreach` or `loop`.
        recorded: whether its steps go into a CUDA graph: then rate and step counters are on the
            device, where a replayed step finds them.
    """
    chosen = {
        "fused": {"fused": True if device.type in ("cpu", "cuda") else None},
        "foreach": {"foreach": True},
        "loop": {"foreach": False},
    }
    return Adam(
        model.parameters(),
        lr=torch.tensor(recipe.learning_rate, device=device) if recorded else recipe.learning_rate,
        capturable=recorded,
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


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """The learning rate of the coming step. A tensor stays the same one: a graph may read it."""
    for group in optimizer.param_groups:
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
            continue
        device = group["params"][0].device
        if group["lr"].device != device:  # it came from a checkpoint
            group["lr"] = group["lr"].to(device)
        group["lr"].fill_(rate)


def step_with_decay(optimizer: Optimizer, recipe: Recipe, scaler: GradScaler) -> None:
    """One optimizer step with explicit decoupled weight decay before or after it.

    p <- (1 - rate * weight_decay) p on every parameter, biases and norms included
    (specification, section 7). Entries that a method holds at zero stay zero.

    Args:
        scaler: whose scale the gradients carry. Where they overflowed it leaves the Adam step out.
    """
    if recipe.decay_order == "before":
        _decay(optimizer, recipe)
    scaler.step(optimizer)
    scaler.update()
    if recipe.decay_order == "after":
        _decay(optimizer, recipe)


@torch.no_grad()
def _decay(optimizer: Optimizer, recipe: Recipe) -> None:
    if recipe.weight_decay:
        trained = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        factor = 1 - optimizer.param_groups[0]["lr"] * recipe.weight_decay
        torch._foreach_mul_(trained, factor)  # pyright: ignore[reportPrivateImportUsage]
