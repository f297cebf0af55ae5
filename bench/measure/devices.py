"""Which device a run uses: `auto`, a kind, or a GPU model by name. Refusals never import torch.

CUDA's own default order ("fastest first") cannot be known from outside, so a CUDA index from here
is one in PCI order, and `resolve` asks CUDA for that order in the environment, which the processes
of the runs inherit.
"""

import os
import platform
import re
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.measure import nvml as nvml_module

KINDS = ("auto", "cpu", "cuda", "mps")

_ORDER, _VISIBLE = "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU, or one MIG slice of it."""

    name: str
    uuid: str
    memory_bytes: int = 0


@dataclass(frozen=True)
class ResolvedDevice:
    """kind: cpu, cuda or mps. index: CUDA index among the visible GPUs, in PCI order; else None."""

    kind: str
    index: int | None
    name: str
    uuid: str | None = None


def physical_gpus(nvml: Any = None) -> list[Gpu]:
    """All NVIDIA GPUs of this machine in PCI order; none without a driver."""
    with nvml_module.session(nvml) as library:
        if library is None:
            return []
        count = nvml_module.ask(library, "nvmlDeviceGetCount") or 0
        handles = [nvml_module.ask(library, "nvmlDeviceGetHandleByIndex", i) for i in range(count)]
        return [_describe(library, handle) for handle in handles if handle is not None]


def _describe(library: Any, handle: Any) -> Gpu:
    name = nvml_module.text(nvml_module.ask(library, "nvmlDeviceGetName", handle) or "unknown GPU")
    mig = nvml_module.ask(library, "nvmlDeviceGetMigMode", handle)
    if mig and mig[0]:
        name += " (MIG mode)"  # CUDA sees a slice of it: not this model
    memory = nvml_module.ask(library, "nvmlDeviceGetMemoryInfo", handle)
    uuid = nvml_module.text(nvml_module.ask(library, "nvmlDeviceGetUUID", handle) or "")
    return Gpu(name, uuid, int(memory.total) if memory else 0)


def visible_gpus(gpus: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs that CUDA would number 0, 1, ... in PCI order.

    Args:
        gpus: all of the machine, in PCI order.
        visible: CUDA_VISIBLE_DEVICES, read as CUDA does: numbers or (abbreviated) UUIDs; the first
            entry that means no GPU ends the list, and a GPU named twice hides all.
    """
    if visible is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for entry in visible.split(","):
        gpu = _entry_gpu(gpus, entry.strip())
        if gpu is None or _is_uuid(entry) != _is_uuid(visible):
            break
        if gpu in chosen:
            return []
        chosen.append(gpu)
    return chosen


def _is_uuid(entry: str) -> bool:
    return entry.strip().startswith(("GPU-", "MIG-"))


def _entry_gpu(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.startswith("MIG-"):
        return Gpu("MIG slice", entry)  # its GPU's model would promise too much
    if entry.startswith("GPU-"):
        matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    number = re.match(r"\+?\d+", entry)
    return gpus[int(number[0])] if number and int(number[0]) < len(gpus) else None


_VENDOR = {"nvidia"}
_BRANDS = {"geforce", "tesla", "quadro", "rtx", "gtx"}
_BUILD = re.compile(r"sxm\d*|pcie|nvl|hbm\d\w*|\d+gb")


def is_model(product: str, wanted: str) -> bool:
    """Whether a GPU's product name is exactly the model `wanted`, in any case.

    The words that name a model must be the same: L40 is not L40S, RTX 4090 not RTX 4090 D. Vendor,
    brand and build (form factor, memory size) may be left out of `wanted` but must not differ.
    """
    model, brand, build = _words(product)
    wanted_model, wanted_brand, wanted_build = _words(wanted)
    if not wanted_model:
        return False
    return model == wanted_model and wanted_brand <= brand and wanted_build <= build


def _words(name: str) -> tuple[list[str], set[str], set[str]]:
    words = [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word]
    build = {word for word in words if _BUILD.fullmatch(word)}
    brand = _BRANDS.intersection(words)
    return [word for word in words if word not in build | brand | _VENDOR], brand, build


def _cuda_problem() -> str | None:
    """Why this torch cannot use the GPUs that the driver knows; None if it can. Imports torch."""
    import torch

    if not torch.backends.cuda.is_built():
        return f"torch {torch.__version__} is built without CUDA"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    if usable:
        return None
    reason = str(caught[-1].message).splitlines()[0] if caught else "no reason given"
    return f"torch {torch.__version__} cannot use the GPU driver ({reason})"


def _has_mps() -> bool:
    if platform.system() != "Darwin":
        return False
    import torch

    return torch.backends.mps.is_available()


def cpu_name() -> str:
    """Model of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware") and value.strip():
            return " ".join(value.split())
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.stdout.strip():
            return answer.stdout.strip()
    return platform.processor() or platform.machine() or "unknown processor"


@dataclass(frozen=True)
class Machine:
    """What `resolve` asks about; tests give their own answers."""

    gpus: Callable[[], list[Gpu]] = physical_gpus
    cuda_problem: Callable[[], str | None] = _cuda_problem
    has_mps: Callable[[], bool] = _has_mps
    environment: MutableMapping[str, str] = field(default_factory=lambda: os.environ)


def resolve(device: str, gpu: str | None = None, machine: Machine | None = None) -> ResolvedDevice:
    """The device for `--device` and `--gpu`.

    `auto` takes a usable GPU, else MPS, else the CPU. Of several GPU models it and `cuda` take the
    one with most memory, then the lowest index. A GPU model's name selects the first visible GPU of
    exactly that model (see `is_model`) and implies CUDA. If the answer is a GPU, CUDA_DEVICE_ORDER
    is set to PCI_BUS_ID in the environment: a process that started CUDA before keeps its old order.

    Raises UsageError, in one line, for an unknown device or one that is not there.
    """
    machine = machine or Machine()
    if device not in KINDS:
        raise UsageError(f"unknown device {device!r}; known: {', '.join(KINDS)}")
    if gpu is not None and device not in ("auto", "cuda"):
        raise UsageError(f"--gpu {gpu!r} needs --device cuda or auto, not {device!r}")
    if device == "cpu":
        return ResolvedDevice("cpu", None, cpu_name())
    if device == "mps":
        if not machine.has_mps():
            raise UsageError("no MPS device on this machine; use --device cpu")
        return ResolvedDevice("mps", None, cpu_name())
    if device == "cuda" or gpu is not None:
        return _resolve_cuda(machine, gpu, machine.gpus())
    return _resolve_auto(machine)


def _resolve_auto(machine: Machine) -> ResolvedDevice:
    gpus = machine.gpus()
    if visible_gpus(gpus, machine.environment.get(_VISIBLE)) and machine.cuda_problem() is None:
        return _resolve_cuda(machine, None, gpus)
    if machine.has_mps():
        return ResolvedDevice("mps", None, cpu_name())
    return ResolvedDevice("cpu", None, cpu_name())


def _resolve_cuda(machine: Machine, wanted: str | None, gpus: list[Gpu]) -> ResolvedDevice:
    visible = machine.environment.get(_VISIBLE)
    seen = visible_gpus(gpus, visible)
    matches = [i for i, gpu in enumerate(seen) if wanted is None or is_model(gpu.name, wanted)]
    if not matches:
        what = "no GPU" if wanted is None else f"no GPU that is exactly {wanted!r}"
        raise UsageError(f"{what} is visible ({_list(gpus, seen, visible)}); use --device cpu")
    _refuse_ambiguous_numbers(machine, gpus, visible)
    problem = machine.cuda_problem()
    if problem:
        raise UsageError(f"{problem}; use --device cpu")
    index = matches[0] if wanted else max(matches, key=lambda i: (seen[i].memory_bytes, -i))
    machine.environment[_ORDER] = "PCI_BUS_ID"
    return ResolvedDevice("cuda", index, seen[index].name, seen[index].uuid)


def _list(gpus: list[Gpu], seen: list[Gpu], visible: str | None) -> str:
    if seen:
        counts = Counter(gpu.name for gpu in seen)
        return "visible: " + ", ".join(f"{n} x {name}" for name, n in counts.items())
    if gpus:
        return f"{_VISIBLE}={visible!r} hides {len(gpus)}"
    return "no NVIDIA GPU or no driver"


def _refuse_ambiguous_numbers(machine: Machine, gpus: list[Gpu], visible: str | None) -> None:
    """Numbers in CUDA_VISIBLE_DEVICES follow CUDA's order, which for unlike GPUs is a guess."""
    if visible is None or _is_uuid(visible):
        return
    if len({gpu.name for gpu in gpus}) > 1 and machine.environment.get(_ORDER) != "PCI_BUS_ID":
        raise UsageError(
            f"{_VISIBLE}={visible!r} is ambiguous with unlike GPUs: use UUIDs, or set"
            f" {_ORDER}=PCI_BUS_ID"
        )
