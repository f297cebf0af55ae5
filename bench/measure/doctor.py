"""What this machine can measure, and what not: plain answers before a study is started."""

import itertools
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from bench.measure import environment, telemetry
from bench.measure.devices import cpu_name, physical_gpus, visible_gpus

Status = Literal["yes", "no", "limited"]

SUPPORTED_VERSIONS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "torch": ((2, 11), (2, 14)),
    "torchvision": ((0, 26), (0, 29)),
    "timm": ((1, 0), (1, 0)),
    "numpy": ((2, 0), (2, 4)),
}
"""First and last minor release that the harness is meant for. The MAC rules and the memory meter
follow torch's operators: a newer torch may have one that they refuse."""

_BUSY_LOAD = 0.5  # cores that other programs may keep busy before CPU timings suffer


@dataclass(frozen=True)
class Check:
    name: str
    status: Status
    detail: str


def checks(results: Path = Path("results"), nvml: Any = None) -> list[Check]:
    """All checks, in a fixed order; never raises for what this machine lacks.

    Args:
        results: the folder that records would go to. It is not created.
        nvml: stands in for the `pynvml` module (tests).
    """
    return [
        _cpu_timing(),
        _threads(),
        _load(),
        *_cuda(nvml),
        *_nvml_fields(nvml),
        _tf32(),
        _mps(),
        *_attention(),
        _results_folder(results),
        *_versions(),
    ]


def _cpu_timing() -> Check:
    clock = time.get_clock_info("perf_counter")
    ticks = [time.perf_counter_ns() for _ in range(1000)]
    smallest = min((b - a for a, b in itertools.pairwise(ticks) if b > a), default=0)
    good = clock.monotonic and 0 < smallest <= 10_000
    detail = f"perf_counter_ns, smallest step seen {smallest} ns, on {cpu_name()}"
    return Check("CPU timing", "yes" if good else "limited", detail)


def _threads() -> Check:
    threads, cores = torch.get_num_threads(), os.cpu_count()
    detail = f"{threads} intra-op, {torch.get_num_interop_threads()} inter-op, {cores} cores"
    return Check("threads", "limited" if cores and threads > cores else "yes", detail)


def _load() -> Check:
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        return Check("idle machine", "no", "this system reports no load average")
    detail = f"load average of the last minute {load:.2f} on {os.cpu_count()} cores"
    if load > _BUSY_LOAD:
        return Check("idle machine", "limited", f"{detail}: other programs disturb CPU timings")
    return Check("idle machine", "yes", detail)


def _cuda(nvml: Any) -> Iterator[Check]:
    gpus = physical_gpus(nvml)
    seen = visible_gpus(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if not torch.cuda.is_available():
        hidden = f"the driver knows {len(gpus)} GPUs, this process may see {len(seen)}"
        reason = f"torch sees no GPU; {hidden}" if gpus else "no NVIDIA GPU or no driver"
        yield Check("CUDA events", "no", reason)
        yield Check("allocator peaks", "no", "on CPU: accounted by an untimed pass over tensors")
        return
    names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    yield Check("CUDA events", "yes", names)
    pooled = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") in ("", "0")
    detail = "allocated and reserved, of the caching allocator"
    yield Check(
        "allocator peaks",
        "yes" if pooled else "limited",
        detail if pooled else "PYTORCH_NO_CUDA_MEMORY_CACHING turns the caching allocator off",
    )


def _nvml_fields(nvml: Any) -> Iterator[Check]:
    answers: dict[str, Status] = {"measured": "yes", "unsupported": "no", "absent": "no"}
    for reading in telemetry.sample(0, nvml):
        value = reading.status if reading.value is None else f"{reading.value:g} {reading.unit}"
        yield Check(f"NVML {reading.field}", answers[reading.status], value)


def _tf32() -> Check:
    if not torch.cuda.is_available():
        return Check("TF32", "no", "needs a CUDA GPU")
    major, minor = torch.cuda.get_device_capability()
    able = major >= 8
    return Check("TF32", "yes" if able else "no", f"compute capability {major}.{minor}")


def _mps() -> Check:
    if not torch.backends.mps.is_available():
        return Check("MPS", "no", "no Apple GPU")
    events = hasattr(torch.mps, "event")
    detail = "events" if events else "no events: the clock waits for the GPU at every mark"
    return Check("MPS", "yes" if events else "limited", f"{detail}; no allocator peaks")


def _attention() -> Iterator[Check]:
    enabled = environment.attention_backends()
    for backend in ("flash", "efficient", "cudnn", "math"):
        runs_here = backend in ("flash", "math") or torch.cuda.is_available()
        if backend not in enabled:
            yield Check(f"attention {backend}", "no", "switched off")
        elif not runs_here:
            yield Check(f"attention {backend}", "no", "needs a CUDA GPU")
        else:
            yield Check(f"attention {backend}", "yes", "enabled; the shapes decide which one runs")


def _results_folder(results: Path) -> Check:
    existing = next((p for p in (results, *results.absolute().parents) if p.exists()), results)
    name = "results folder"
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Check(name, "no", f"{results} cannot be written: {error.strerror}")
    return Check(name, "yes", f"{results} {'exists' if existing == results else 'can be created'}")


def _versions() -> Iterator[Check]:
    for name, (first, last) in SUPPORTED_VERSIONS.items():
        installed = environment.version(name)
        meant = f"meant for {_dotted(first)} to {_dotted(last)}"
        if installed is None:
            yield Check(f"version of {name}", "no", f"not installed; {meant}")
            continue
        inside = first <= _minor(installed) <= last
        status: Status = "yes" if inside else "limited"
        yield Check(f"version of {name}", status, f"{installed}; {meant}")


def _minor(version: str) -> tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
