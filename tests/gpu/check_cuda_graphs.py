"""Checks of --cuda-graphs that need a real CUDA GPU; not part of the test suite.

    python tests/gpu/check_cuda_graphs.py

Output and exit codes are those of `check_measure.py`. Takes about two minutes. Times are printed
and decide nothing.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from bench.execution import Execution
from bench.measure.clock import make_clock
from bench.session import Session, build_session
from bench.study_file import study_spec
from tests.gpu.check_measure import MIB, main

STEPS = 40
METHODS = ("dense", "static", "barter", "set", "snfs", "rigl", "srigl", "s2vite")


def session(device: torch.device, method: str, graphs: bool, **given: Any) -> Session:
    """Of the digits unless told otherwise: real kernels, small tensors."""
    execution = Execution(cuda_graphs=graphs, **given.pop("execution", {}))
    asked = {"methods": method, "steps": STEPS, "seeds": "0", "density": "0.3"} | given
    spec = replace(study_spec(None, asked), device="cuda")
    (run,) = spec.runs()
    return build_session(replace(run, execution=execution), device)


def train(of: Session, steps: int = STEPS) -> tuple[list[float], int]:
    """Losses, and the updates that replaced parameters."""
    clock, losses, replaced = make_clock(of.device), [], 0
    for step in range(1, steps + 1):
        loss, update = of.train_step(step, of.batch(step), clock)
        losses.append(loss)
        replaced += bool(update.replaced_parameters)
    return torch.stack(losses).tolist(), replaced


def assert_close(mine: Sequence[float], theirs: Sequence[float], what: str) -> None:
    """Early losses agree to rounding, later ones may have drifted: kernels add in any order."""
    for step, (a, b) in enumerate(zip(mine, theirs, strict=True), 1):
        allowed = 1e-4 if step <= STEPS // 4 else 3e-2
        assert abs(a - b) <= allowed * abs(b), (what, step, a, b)


def check_training(device: torch.device) -> str:
    """Replayed training is training, of every method."""
    found = []
    for method in METHODS:
        usual, replayed = (session(device, method, graphs) for graphs in (False, True))
        (expected, _), (losses, replaced) = train(usual), train(replayed)
        assert_close(losses, expected, method)
        assert replayed.pieces.captures >= 1, method
        found.append(f"{method} {replayed.pieces.captures} recordings, {replaced} replacements")
    return "; ".join(found)


def check_options(device: torch.device) -> str:
    """Together with what else may be asked for."""
    options: tuple[dict[str, Any], ...] = (
        {"autocast": "bf16"},
        {"recompute": "norm,gelu"},
        {"optimizer": "foreach"},
        {"optimizer": "loop"},
        {"attention": "math"},
        {"compile": True},
    )
    for option in options:
        pair = [session(device, "barter", g, execution=option) for g in (False, True)]
        (expected, _), (losses, _) = map(train, pair)
        assert_close(losses[: STEPS // 4], expected[: STEPS // 4], str(option))
    return ", ".join(f"{name} {value}" for option in options for name, value in option.items())


def check_no_synchronisation(device: torch.device) -> str:
    """A replayed step never waits for the device."""
    of = session(device, "barter", True)
    train(of, 3)
    batch, clock = of.batch(4), make_clock(device)
    torch.cuda.synchronize(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        of.train_step(4, batch, clock)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return "a replayed step did not wait"


def check_release(device: torch.device) -> str:
    """Memory of old graphs is given back before new ones are recorded: it does not grow."""
    of = session(device, "barter", True, steps=200, batch_size=256)
    clock, after = make_clock(device), []
    for step in range(1, 201):
        captures = of.pieces.captures
        of.train_step(step, of.batch(step), clock)
        if of.pieces.captures > captures:
            after.append(torch.cuda.memory_reserved(device))
    assert len(after) >= 3, "too few transfers to tell"
    assert max(after[1:]) <= 1.1 * after[0] + 32 * MIB, [size // MIB for size in after]
    of.pieces.forget()
    held = torch.cuda.memory_allocated(device)
    return (
        f"{len(after)} recordings, reserved {after[0] / MIB:.0f} to {max(after) / MIB:.0f} MiB;"
        f" {held / MIB:.0f} MiB allocated when all are released"
    )


def check_times(device: torch.device) -> str:
    """For people: median step and the most expensive one (it records), eager beside replayed."""
    found = []
    for density in ("0.1", "0.5"):
        for graphs in (False, True):
            given = {"workload": "vit-tiny-imagenet", "density": density, "steps": 300}
            of = session(device, "static", graphs, batch_size=64, data="synthetic", **given)
            clock = make_clock(device)
            for step in range(1, 61):
                of.train_step(step, of.batch(step), clock)
            times = [times.step_ms for times in clock.read()][1:]
            word = "replayed" if graphs else "eager"
            found.append(f"{density} {word} {median(times):.2f} (most {max(times):.1f})")
    return "ViT, batch 64, ms a step: " + ", ".join(found)


CHECKS = (
    check_training,
    check_options,
    check_no_synchronisation,
    check_release,
    check_times,
)

if __name__ == "__main__":
    sys.exit(main(CHECKS))
