"""How long a step of a contender takes here, roughly: for the sum of a long list of runs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from bench.process_setup import prepare_device
from bench.run_spec import RunSpec
from bench.session import build_session
from bench.workloads.registry import get_workload

STEPS = 4
"""Timed ones, after one that is not."""
CPU_MACS = 2e9
"""Forward plus backward of a sampled step on a CPU; of larger batches a part is taken."""


def work(specs: Sequence[RunSpec], device_index: int | None, connection: Connection) -> None:
    """Entry point of a process: sends the seconds of a step of each, NaN where it fails."""
    for spec in specs:
        try:
            connection.send(_seconds(spec, prepare_device(spec, device_index)))
        except Exception:  # a run of it will say why
            connection.send(float("nan"))


def _seconds(spec: RunSpec, device: torch.device) -> float:
    images = _images(spec)
    # Its steps are asked for, neither its data nor what it starts from.
    plain = replace(spec, batch_size=images, start=None, dataset=None, stored=None)
    session = build_session(plain, device)
    times = []
    for step in range(1, STEPS + 2):
        batch = session.batch(step)
        began = time.perf_counter()
        session.train_step(step, batch, _NoClock())
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    return min(times[1:]) * spec.batch_size / images


def _images(spec: RunSpec) -> int:
    if spec.device != "cpu":
        return spec.batch_size
    shape = get_workload(spec.workload).shape
    macs = shape.macs_training(shape.blocks.total_heads, shape.blocks.total_channels)
    return min(spec.batch_size, max(2, int(CPU_MACS / macs)))


class _NoClock:
    def start_step(self) -> None: ...
    def mark(self, name: str) -> None: ...
