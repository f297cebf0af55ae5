"""The sampler: what it reads and when, and that no machine, however broken, ends a run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from bench.measure import sampler as sampler_module
from bench.measure.observed import Observed
from bench.measure.sampler import Sampler
from bench.measure.telemetry import VARYING
from tests.unit.nvml_fixture import FakeNvml

ME = os.getpid()


@pytest.fixture(autouse=True)
def all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def values(observed: Observed, field: str) -> dict[str | None, float | None]:
    return {row["statistic"]: row["value"] for row in observed.rows() if row["field"] == field}


def statuses(observed: Observed) -> dict[str, str]:
    return {row["field"]: row["status"] for row in observed.rows()}


def test_the_thread_reads_while_a_region_is_open_and_never_else() -> None:
    nvml = FakeNvml("a", pids=(ME,))
    with Sampler(0, background=True, interval_s=0.002, nvml=nvml) as sampler:
        time.sleep(0.02)
        assert nvml.power_readings == 0
        with sampler.timed():
            until(lambda: nvml.power_readings >= 3)
            sampler.mark()  # the thread reads: nothing more to do
            with sampler.paused():
                time.sleep(0.01)  # one that was under way may end
                before = nvml.power_readings
                time.sleep(0.02)
                assert nvml.power_readings == before
            until(lambda: nvml.power_readings > before)
        time.sleep(0.01)
        after = nvml.power_readings
        time.sleep(0.02)
        assert nvml.power_readings == after
    assert nvml.sessions == 0
    observed = sampler.take()
    assert observed.fields["power"].readings in (after, after - 1, after - 2)
    assert sampler.take() == Observed()


def test_without_a_thread_marks_are_read_within_regions_only() -> None:
    nvml = FakeNvml("a", pids=(ME, 5))
    with Sampler(0, ours=(ME, 5), nvml=nvml) as sampler:
        sampler.mark()
        with sampler.timed():
            for clock, reasons in ((1200, 0x1), (1500, 0x4), (1800, 0x0)):
                nvml.sm_clock_mhz, nvml.reasons = clock, reasons
                sampler.mark()
            with sampler.paused():
                nvml.sm_clock_mhz = 10
                sampler.mark()
        sampler.mark()
    observed = sampler.take()
    assert values(observed, "sm_clock") == {"min": 10, "mean": 1127.5, "max": 1800}, (
        "the region after the pause had no mark: its end was read"
    )
    assert values(observed, "throttle_reasons") == {"union": 0x5}
    assert values(observed, "own_processes")["min"] == 2
    assert values(observed, "foreign_processes")["max"] == 0
    assert {row["readings"] for row in observed.rows() if row["field"] == "power"} == {4}


def test_energy_is_that_of_the_timed_regions() -> None:
    nvml = FakeNvml("a")
    with Sampler(0, nvml=nvml) as sampler:
        nvml.energy_mj += 1_000_000
        with sampler.timed():
            nvml.energy_mj += 2_500
            with sampler.paused():
                nvml.energy_mj += 1_000_000
            nvml.energy_mj += 500
    observed = sampler.take()
    assert observed.energy_j == pytest.approx(3.0)
    assert values(observed, "energy") == {"difference": pytest.approx(3.0)}


def test_a_counter_that_began_anew_tells_nothing() -> None:
    nvml = FakeNvml("a")
    with Sampler(0, nvml=nvml) as sampler:
        with sampler.timed():
            nvml.energy_mj += 500
        with sampler.timed():
            nvml.energy_mj = 7
    observed = sampler.take()
    assert observed.energy_j is None
    assert statuses(observed)["energy"] == "unsupported"


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    ("device", "nvml"),
    [(None, FakeNvml("a")), (0, FakeNvml(driver=False)), (3, FakeNvml("a"))],
    ids=["no GPU", "no driver", "no such GPU"],
)
def test_what_is_not_there_is_absent(device: int | None, nvml: FakeNvml, background: bool) -> None:
    with Sampler(device, background=background, nvml=nvml) as sampler, sampler.timed():
        sampler.mark()
    observed = sampler.take()
    assert set(statuses(observed).values()) == {"absent"}
    assert len(statuses(observed)) == len(VARYING) + 1
    assert all(row["value"] is None for row in observed.rows())
    assert observed.energy_j is None


def test_a_missing_library_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Sampler(0, background=True) as sampler, sampler.timed():
        pass
    assert set(statuses(sampler.take()).values()) == {"absent"}


def test_a_run_that_was_never_timed_has_rows_too() -> None:
    assert set(statuses(Observed()).values()) == {"absent"}


def test_one_unsupported_field_takes_no_other_with_it() -> None:
    failing = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption")
    nvml = FakeNvml("a", failing=failing, missing=("nvmlDeviceGetUtilizationRates",))
    with Sampler(0, nvml=nvml) as sampler, sampler.timed():
        pass
    found = statuses(sampler.take())
    unsupported = {field for field, status in found.items() if status == "unsupported"}
    assert unsupported == {"power", "energy", "gpu_utilisation", "memory_utilisation"}
    assert {found[field] for field in found.keys() - unsupported} == {"measured"}


@pytest.mark.parametrize("background", [False, True])
def test_a_driver_that_is_lost_half_way(background: bool) -> None:
    nvml = FakeNvml("a", pids=(ME,))
    with Sampler(0, background=background, interval_s=0.002, nvml=nvml) as sampler:
        with sampler.timed():
            until(lambda: sampler.mark() or nvml.power_readings > 0)
        with sampler.timed():
            nvml.lose()
            time.sleep(0.02)
            sampler.mark()
    observed = sampler.take()
    assert observed.fields["power"].readings > 0
    assert observed.fields["power"].missing > 0
    found = statuses(observed)
    assert found.pop("energy") == "unsupported"
    assert set(found.values()) == {"measured"}
    assert values(observed, "power")["max"] == 71.5


def test_a_reading_that_hangs_ends_no_run_and_counts_for_no_other_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampler_module, "_PATIENCE_S", 0.05)
    nvml, hanging, go_on = FakeNvml("a", pids=(ME,)), Event(), Event()
    original = nvml.nvmlDeviceGetPowerUsage

    def hang(gpu: int) -> int:
        if not hanging.is_set():
            hanging.set()
            go_on.wait(10)
            return 99_000
        return original(gpu)

    monkeypatch.setattr(nvml, "nvmlDeviceGetPowerUsage", hang)
    with Sampler(0, background=True, interval_s=0.002, nvml=nvml) as sampler:
        with sampler.timed():
            assert hanging.wait(10)
        seen = sampler.take()
        started = time.monotonic()
    assert time.monotonic() - started < 5
    assert nvml.sessions == 1, "closing the library would hang as well"
    go_on.set()
    assert sampler._thread is not None
    sampler._thread.join(10)
    assert values(seen, "power")["max"] == 71.5
    assert sampler.take() == Observed(), "it came too late"


def test_an_error_within_a_region_passes_through() -> None:
    nvml = FakeNvml("a", pids=(ME,))
    with (
        pytest.raises(KeyError),
        Sampler(0, background=True, nvml=nvml) as sampler,
        sampler.timed(),
        sampler.paused(),
    ):
        raise KeyError
    assert nvml.sessions == 0
    assert sampler.take().energy_j == 0


def test_whoever_watches_need_not_load_torch() -> None:
    code = "import sys, bench.measure.sampler; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
