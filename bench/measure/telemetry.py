"""The state of a GPU beside a measurement: clocks, power, temperature, throttling, neighbours.

Every field is always there. Its status says whether it was `measured`, is `unsupported` by this
GPU or driver (or hidden by MIG), or `absent` because there is no GPU or no driver.
"""

import os
import sys
from collections.abc import Callable, Collection
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


class Gpu:
    """One GPU within one session of the library, during one reading.

    What several fields need is asked once.
    """

    def __init__(self, nvml: Any, handle: Any, ours: Collection[int], computing: bool) -> None:
        self.nvml, self._handle = nvml, handle
        self._ours, self._computing = frozenset(ours), computing
        self._answers: dict[tuple[Any, ...], Any] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer of `nvmlDeviceGet` + function. Raises what the library raises."""
        key = (function, *arguments)
        if key not in self._answers:
            ask = getattr(self.nvml, f"nvmlDeviceGet{function}")
            self._answers[key] = ask(self._handle, *arguments)
        return self._answers[key]

    def clock(self, kind: str, maximum: bool = False) -> float:
        function = "MaxClockInfo" if maximum else "ClockInfo"
        return self.ask(function, getattr(self.nvml, f"NVML_CLOCK_{kind}"))

    def throttle_reasons(self) -> int:
        # The function was renamed; either may be missing in the bindings or in the driver.
        for function in ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons"):
            mask = nvml_module.ask(self.nvml, f"nvmlDeviceGet{function}", self._handle)
            if mask is not None:
                return mask
        raise _UnsupportedError

    def processes(self) -> set[int]:
        return {process.pid for process in self.ask("ComputeRunningProcesses")}

    def own_processes(self) -> int:
        return len(self.processes() & self._ours)

    def foreign_processes(self) -> int:
        if self.processes() and self._computing and not self.own_processes():
            # In a container the driver counts in other process numbers: which is ours is unknown.
            raise _UnsupportedError
        return len(self.processes() - self._ours)


def _uses_cuda() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


Field = tuple[str, str, Callable[[Gpu], float]]
"""Name, unit, how it is read."""

_CONSTANTS: tuple[Field, ...] = (
    ("max_sm_clock", "MHz", lambda gpu: gpu.clock("SM", maximum=True)),
    ("max_memory_clock", "MHz", lambda gpu: gpu.clock("MEM", maximum=True)),
    ("memory_total", "bytes", lambda gpu: gpu.ask("MemoryInfo").total),
)
ENERGY: Field = ("energy", "J", lambda gpu: gpu.ask("TotalEnergyConsumption") / 1e3)
"""A running total since the driver was loaded: subtract two readings."""
VARYING: tuple[Field, ...] = (
    ("sm_clock", "MHz", lambda gpu: gpu.clock("SM")),
    ("memory_clock", "MHz", lambda gpu: gpu.clock("MEM")),
    ("power", "W", lambda gpu: gpu.ask("PowerUsage") / 1e3),
    ("temperature", "C", lambda gpu: gpu.ask("Temperature", gpu.nvml.NVML_TEMPERATURE_GPU)),
    ("throttle_reasons", "bitmask", Gpu.throttle_reasons),
    ("gpu_utilisation", "%", lambda gpu: gpu.ask("UtilizationRates").gpu),
    ("memory_utilisation", "%", lambda gpu: gpu.ask("UtilizationRates").memory),
    ("memory_used", "bytes", lambda gpu: gpu.ask("MemoryInfo").used),
    ("processes", "count", lambda gpu: len(gpu.processes())),
    ("own_processes", "count", Gpu.own_processes),
    ("foreign_processes", "count", Gpu.foreign_processes),
)
"""What may change from one reading to the next."""


class Probe:
    """One GPU, to be read again and again within one session of the library.

    Args:
        library: of `nvml.session`; None without driver.
        device: CUDA index in PCI order (`ResolvedDevice.index`), a GPU's UUID, or None for no GPU.
        ours: numbers of the processes that may use the GPU; this one's if not given.
        computing: whether one of them certainly does, so that the driver ought to show it.
    """

    def __init__(
        self,
        library: Any | None,
        device: int | str | None,
        ours: Collection[int] | None = None,
        computing: bool = False,
    ) -> None:
        self._library = library
        self._handle = None if library is None or device is None else _handle(library, device)
        self._ours = (os.getpid(),) if ours is None else ours
        self._computing = computing

    def read(self, fields: Collection[Field] = VARYING) -> list[Reading]:
        """These fields, now. Never raises for what this machine cannot tell."""
        if self._handle is None:
            return [Reading(name, unit, None, "absent") for name, unit, _ in fields]
        gpu = Gpu(self._library, self._handle, self._ours, self._computing)
        return [_read(gpu, *field) for field in fields]


def sample(device: int | str | None, nvml: Any = None) -> list[Reading]:
    """All fields of one GPU, now. Never raises for what this machine cannot tell.

    One sample takes milliseconds: none belongs inside a timed step.

    Args:
        device: as for `Probe`.
        nvml: stands in for the `pynvml` module (tests).
    """
    with nvml_module.session(nvml) as library:
        probe = Probe(library, device, computing=_uses_cuda())
        return probe.read((*_CONSTANTS, ENERGY, *VARYING))


def _handle(nvml: Any, device: int | str) -> Any | None:
    if isinstance(device, int):
        seen = visible_gpus(physical_gpus(nvml), os.environ.get("CUDA_VISIBLE_DEVICES"))
        if not 0 <= device < len(seen):
            return None
        device = seen[device].uuid
    return nvml_module.ask(nvml, "nvmlDeviceGetHandleByUUID", device)


def _read(gpu: Gpu, field: str, unit: str, read: Callable[[Gpu], float]) -> Reading:
    try:
        return Reading(field, unit, float(read(gpu)), "measured")
    except Exception:  # bindings, driver, card: whichever lacks it, the run goes on
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
