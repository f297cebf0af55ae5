"""The state of a GPU beside a measurement: clocks, power, temperature, throttling, neighbours.

Every field is always there. Its status says whether it was `measured`, is `unsupported` by this
GPU or driver (or hidden by MIG), or `absent` because there is no GPU or no driver.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bench.measure import nvml as nvml_module
from bench.measure.devices import physical_gpus, visible_gpus

Status = Literal["measured", "unsupported", "absent"]


@dataclass(frozen=True)
class Reading:
    """One field of one sample; `value` is None unless `measured`."""

    field: str
    unit: str
    value: float | None
    status: Status


class _UnsupportedError(Exception):
    """A field that this machine cannot answer."""


def _clock(kind: str, maximum: bool) -> Callable[[Any, Any], float]:
    function = "nvmlDeviceGetMaxClockInfo" if maximum else "nvmlDeviceGetClockInfo"
    return lambda nvml, gpu: getattr(nvml, function)(gpu, getattr(nvml, f"NVML_CLOCK_{kind}"))


def _throttle_mask(nvml: Any, gpu: Any) -> float:
    # The function was renamed; either may be missing in the bindings or in the driver.
    for function in (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ):
        mask = nvml_module.ask(nvml, function, gpu)
        if mask is not None:
            return mask
    raise _UnsupportedError


def _foreign_processes(nvml: Any, gpu: Any) -> float:
    pids = {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)}
    if os.getpid() not in pids and pids and _uses_cuda():
        # In a container the driver counts in other process numbers: which is ours is unknown.
        raise _UnsupportedError
    return len(pids - {os.getpid()})


def _uses_cuda() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


_FIELDS: tuple[tuple[str, str, Callable[[Any, Any], float]], ...] = (
    ("sm_clock", "MHz", _clock("SM", maximum=False)),
    ("max_sm_clock", "MHz", _clock("SM", maximum=True)),
    ("memory_clock", "MHz", _clock("MEM", maximum=False)),
    ("max_memory_clock", "MHz", _clock("MEM", maximum=True)),
    ("power", "W", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3),
    ("energy", "J", lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3),
    (
        "temperature",
        "C",
        lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
    ("throttle_reasons", "bitmask", _throttle_mask),
    ("gpu_utilisation", "%", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
    ("memory_utilisation", "%", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory),
    ("memory_used", "bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    ("memory_total", "bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total),
    ("foreign_processes", "count", _foreign_processes),
)


def sample(device: int | str | None, nvml: Any = None) -> list[Reading]:
    """All fields of one GPU, now. Never raises for what this machine cannot tell.

    Energy is a running total since the driver was loaded: subtract two samples. One sample takes
    milliseconds: none belongs inside a timed step.

    Args:
        device: CUDA index in PCI order (`ResolvedDevice.index`), a GPU's UUID, or None for no GPU.
        nvml: stands in for the `pynvml` module (tests).
    """
    with nvml_module.session(nvml) as library:
        gpu = None if library is None or device is None else _handle(library, device)
        return [_read(library, gpu, *field) for field in _FIELDS]


def _handle(nvml: Any, device: int | str) -> Any | None:
    if isinstance(device, int):
        seen = visible_gpus(physical_gpus(nvml), os.environ.get("CUDA_VISIBLE_DEVICES"))
        if not 0 <= device < len(seen):
            return None
        device = seen[device].uuid
    return nvml_module.ask(nvml, "nvmlDeviceGetHandleByUUID", device)


def _read(nvml: Any, gpu: Any, field: str, unit: str, read: Callable[[Any, Any], float]) -> Reading:
    if gpu is None:
        return Reading(field, unit, None, "absent")
    try:
        return Reading(field, unit, float(read(nvml, gpu)), "measured")
    except (nvml.NVMLError, AttributeError, _UnsupportedError):
        return Reading(field, unit, None, "unsupported")


_SLOWING_REASONS = {
    0x04: "software_power_cap",
    0x08: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal_slowdown",
    0x40: "hardware_thermal_slowdown",
    0x80: "hardware_power_brake",
}


def slowing_reasons(mask: int) -> tuple[str, ...]:
    """Names of the throttle reasons that make a figure doubtful.

    Not among them: an idle GPU (0x1), clocks that somebody set (0x2) and display clocks (0x100).
    """
    return tuple(name for bit, name in _SLOWING_REASONS.items() if mask & bit)
