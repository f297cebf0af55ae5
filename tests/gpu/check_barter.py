"""BARTER and the harness on a CUDA GPU: `python tests/gpu/check_barter.py`, a few minutes.

Checks what a CPU cannot: no synchronisation in a step, one per transfer, layers without heads on
every attention backend, and a whole study through `bench run`. Exits 2 where there is no GPU.
"""

import subprocess
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bench.measure.clock import make_clock
from bench.optimization import make_optimizer
from bench.workloads.build import build_model
from bench.workloads.registry import get_workload
from methods.barter import Barter
from methods.base import MethodContext
from methods.compact import remove_from_layer
from methods.config import BarterConfig
from methods.units import find_layers

WORKLOAD = get_workload("vit-tiny-imagenet")


def check_synchronisations(device: torch.device) -> None:
    """None in a step; in an update step one per transfer."""
    steps = 24
    model = build_model(WORKLOAD, 0).to(device)
    optimizer = make_optimizer(model, WORKLOAD.recipe, device)
    method = Barter(BarterConfig(transfer_multiplier=2.0))
    method.attach(model, optimizer, MethodContext(WORKLOAD.shape.blocks, 0.3, steps, 0))
    clock = make_clock(device)
    images = torch.randn(32, 3, 64, 64, device=device)
    targets = torch.randint(200, (32,), device=device)
    transfers = 0
    for step in range(1, steps + 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            clock.start_step()
            cross_entropy(model(images), targets).backward()
            method.after_backward(step)
            optimizer.step()
            before = len(caught)
            update = method.update_topology(step)
            method.after_step(step)
            optimizer.zero_grad(set_to_none=True)
            clock.mark("step")
            torch.cuda.set_sync_debug_mode("default")
        assert before == 0, f"step {step} waited: {caught[0].message}"
        waits = len(caught)
        assert waits <= len(update.events), f"step {step}: {waits} waits, {update.events}"
        transfers += sum(event.executed for event in update.events)
    times = clock.read()
    assert transfers > 0
    print(f"ok: no wait in {steps} steps but one per transfer ({transfers} transfers);")
    print(f"    last step {times[-1].step_ms:.3f} ms at batch 32 (not a benchmark)")


def check_layers_without_heads(device: torch.device) -> None:
    """Forward and backward where every attention layer but one has lost all heads."""
    model: nn.Module = build_model(WORKLOAD, 0).to(device)
    optimizer = make_optimizer(model, WORKLOAD.recipe, device)
    for layer in find_layers(model)[0][1:]:
        while layer.width:
            remove_from_layer(layer, optimizer, 0)
    images = torch.randn(4, 3, 64, 64, device=device)
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    assert bool(torch.isfinite(loss))
    print("ok: layers without heads")


def check_study() -> None:
    """`bench run` and `bench report` on this GPU, at the paper's size."""
    with tempfile.TemporaryDirectory() as results:
        common = ["--results", results]
        run = ["run", "--device", "cuda", "--workload", "vit-tiny-imagenet", "--steps", "60"]
        run += ["--methods", "dense,static,barter", "--density", "0.1,0.5", "--seeds", "0,1,2"]
        for arguments in ([*run, "--study", "gpu", *common], ["report", "gpu", *common]):
            subprocess.run([sys.executable, "-m", "bench.cli", *arguments], check=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("no CUDA GPU here: nothing checked")
        return 2
    device = torch.device("cuda")
    check_synchronisations(device)
    check_layers_without_heads(device)
    check_study()
    return 0


if __name__ == "__main__":
    sys.exit(main())
