"""Telemetry: units, and a status in place of every exception."""

import os
import sys

import pytest

from bench.measure import telemetry
from bench.measure.telemetry import Reading, sample, slowing_reasons
from tests.unit.nvml_fixture import FakeNvml

GIB = 2.0**30
FIELDS = 15


def by_field(readings: list[Reading]) -> dict[str, Reading]:
    assert len(readings) == FIELDS
    assert all((reading.value is None) != (reading.status == "measured") for reading in readings)
    return {reading.field: reading for reading in readings}


@pytest.fixture(autouse=True)
def all_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(telemetry, "_uses_cuda", lambda: False)


def test_everything_measured_in_its_unit():
    readings = by_field(sample(1, FakeNvml("NVIDIA L40", "NVIDIA H200")))
    assert {name: (r.value, r.unit) for name, r in readings.items()} == {
        "sm_clock": (1001.0, "MHz"),
        "max_sm_clock": (1501.0, "MHz"),
        "memory_clock": (2001.0, "MHz"),
        "max_memory_clock": (2501.0, "MHz"),
        "power": (71.5, "W"),
        "energy": (123.456, "J"),
        "temperature": (41.0, "C"),
        "throttle_reasons": (0x24, "bitmask"),
        "gpu_utilisation": (90.0, "%"),
        "memory_utilisation": (30.0, "%"),
        "memory_used": (5 * GIB, "bytes"),
        "memory_total": (20 * GIB, "bytes"),
        "processes": (0.0, "count"),
        "own_processes": (0.0, "count"),
        "foreign_processes": (0.0, "count"),
    }


def test_a_number_means_a_visible_gpu_and_a_uuid_that_gpu(monkeypatch):
    nvml = FakeNvml("a", "b", "c")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    assert by_field(sample(0, nvml))["temperature"].value == 42
    assert by_field(sample(1, nvml))["temperature"].value == 40
    assert by_field(sample("GPU-10000000-aaaa", nvml))["temperature"].value == 41
    assert nvml.sessions == 0


def test_one_unsupported_field_takes_no_other_with_it():
    nvml = FakeNvml("a", failing=("nvmlDeviceGetPowerUsage",), missing=("nvmlDeviceGetMemoryInfo",))
    readings = by_field(sample(0, nvml))
    unsupported = {name for name, r in readings.items() if r.status == "unsupported"}
    assert unsupported == {"power", "memory_used", "memory_total"}
    assert readings["power"] == Reading("power", "W", None, "unsupported")


def test_throttle_reasons_under_either_name():
    new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    assert by_field(sample(0, FakeNvml("a", missing=(new,))))["throttle_reasons"].value == 8
    assert by_field(sample(0, FakeNvml("a", failing=(new,))))["throttle_reasons"].value == 8
    neither = by_field(sample(0, FakeNvml("a", failing=(new, old))))
    assert neither["throttle_reasons"].status == "unsupported"


@pytest.mark.parametrize(
    ("device", "nvml"),
    [
        (None, FakeNvml("a")),
        (0, FakeNvml(driver=False)),
        (1, FakeNvml("a")),
        (-1, FakeNvml("a")),
        ("GPU-unknown", FakeNvml("a")),
        ("MIG-1", FakeNvml("a")),
        (0, FakeNvml("a", failing=("nvmlDeviceGetHandleByUUID",))),
    ],
)
def test_no_such_gpu_is_absent(device, nvml):
    assert {reading.status for reading in sample(device, nvml)} == {"absent"}


def test_a_missing_library_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert {reading.status for reading in sample(0)} == {"absent"}


def test_foreign_processes_do_not_include_this_one():
    nvml = FakeNvml("a", pids=(os.getpid(), -5, -6))
    assert by_field(sample(0, nvml))["foreign_processes"].value == 2


def test_foreign_processes_are_unknown_where_process_numbers_are_not_ours(monkeypatch):
    nvml = FakeNvml("a", pids=(-5, -6))
    assert by_field(sample(0, nvml))["foreign_processes"].value == 2, "this process uses no GPU"
    monkeypatch.setattr(telemetry, "_uses_cuda", lambda: True)
    assert by_field(sample(0, nvml))["foreign_processes"].status == "unsupported"
    assert by_field(sample(0, FakeNvml("a")))["foreign_processes"].value == 0


def test_reasons_that_make_a_figure_doubtful():
    assert slowing_reasons(0) == ()
    assert slowing_reasons(0x1 | 0x2 | 0x100) == ()
    assert slowing_reasons(0x24) == ("software_power_cap", "software_thermal_slowdown")
    assert slowing_reasons(0x08 | 0x40 | 0x80) == (
        "hardware_slowdown",
        "hardware_thermal_slowdown",
        "hardware_power_brake",
    )
