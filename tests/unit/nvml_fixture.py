"""A stand-in for `pynvml`: some GPUs, any function of which may be told to fail."""
# ruff: noqa: N802  (the names are those of NVML)

from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


class FakeNvml:
    """`names` gives one GPU each; a function named in `failing` raises, one in `missing` is not
    there, `mig` holds the indices of GPUs in MIG mode, `driver=False` means that none is loaded.
    What a running GPU changes may be set from outside; `lose` is a driver that goes away."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(
        self,
        *names: str,
        failing: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
        mig: tuple[int, ...] = (),
        driver: bool = True,
        pids: tuple[int, ...] = (),
    ):
        self._names, self._failing, self._missing = names, failing, missing
        self._mig, self._driver, self.pids = mig, driver, pids
        self.sessions = self.power_readings = 0
        self.sm_clock_mhz, self.reasons, self.energy_mj = 1000, 0x24, 123_456

    def lose(self) -> None:
        self._failing = tuple(name for name in dir(self) if name.startswith("nvml"))

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml"):
            if name in self._missing:
                raise AttributeError(name)
            if name in self._failing:
                return self._fail
        return super().__getattribute__(name)

    def _fail(self, *_: Any) -> None:
        raise NVMLError("not supported")

    def nvmlInit(self):
        if not self._driver:
            raise NVMLError("no driver")
        self.sessions += 1

    def nvmlShutdown(self):
        self.sessions -= 1

    def nvmlDeviceGetCount(self):
        return len(self._names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        for index in range(len(self._names)):
            if self.nvmlDeviceGetUUID(index) == uuid:
                return index
        raise NVMLError("not found")

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return self._names[gpu]

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        return f"GPU-{gpu}0000000-aaaa"

    def nvmlDeviceGetMigMode(self, gpu: int) -> list[int]:
        return [int(gpu in self._mig), 0]

    def nvmlDeviceGetClockInfo(self, gpu: int, kind: int) -> int:
        return (self.sm_clock_mhz if kind == self.NVML_CLOCK_SM else 2000) + gpu

    def nvmlDeviceGetMaxClockInfo(self, gpu: int, kind: int) -> int:
        return 1000 * kind + 500 + gpu

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        self.power_readings += 1
        return 71_500

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: int) -> int:
        return self.energy_mj

    def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return 40 + gpu

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: int) -> int:
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: int) -> int:
        return 0x08

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=90, memory=30)

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(used=5 * 2**30, total=(gpu + 1) * 10 * 2**30)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.1"
