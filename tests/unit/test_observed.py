"""From readings to reasons for caution, and to records."""

import os
import pickle
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.measure.observed import Observed
from bench.measure.sampler import Sampler
from bench.measure.telemetry import Reading, sample
from bench.reason_codes import (
    CLOCK_BELOW_TOP,
    FOREIGN_CPU_LOAD,
    FOREIGN_GPU_PROCESS,
    GPU_PROCESSES_NOT_VISIBLE,
    MEANINGS,
    THROTTLED,
    worded,
)
from bench.store import StudyStore
from bench.validity import add_to, machine_codes, per_step, telemetry_rows
from tests.unit.nvml_fixture import FakeNvml
from tests.unit.reports_fixture import run_row

ME = os.getpid()


def watched(*clocks: int, **state: object) -> Observed:
    """A region with a reading at each SM clock; one process, ours, unless told otherwise."""
    nvml = FakeNvml("a", pids=(ME,))
    nvml.reasons = 0
    vars(nvml).update(state)
    with Sampler("GPU-00000000-aaaa", nvml=nvml) as sampler, sampler.timed():
        for clock in clocks or (1500,):
            nvml.sm_clock_mhz = clock
            sampler.mark()
    return sampler.take()


def test_a_quiet_machine_needs_no_caution() -> None:
    assert watched().codes() == []
    assert watched(1500, 1500, 1300).codes() == []


@pytest.mark.parametrize(
    ("bits", "throttled"),
    [
        *((bits, False) for bits in (0x0, 0x1, 0x2, 0x100, 0x103)),
        *((bits, True) for bits in (0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x5)),
    ],
)
def test_reasons_for_a_low_clock_that_count(bits: int, throttled: bool) -> None:
    assert (THROTTLED in watched(reasons=bits).codes()) == throttled


def test_one_throttled_reading_is_enough() -> None:
    assert (watched() + watched(reasons=0x40) + watched()).codes() == [THROTTLED]


def test_clocks_are_compared_with_the_runs_own_top() -> None:
    assert watched(1500, 1400).codes() == []  # mean 1450, 3.3 % below
    assert watched(1500, 1340).codes() == [CLOCK_BELOW_TOP]  # 5.3 % below
    assert watched(1340).codes() == []
    assert watched(1340).codes(top_sm_clock_mhz=1500) == [CLOCK_BELOW_TOP]
    assert (watched(1500) + watched(1340)).top_sm_clock_mhz == 1500


def test_foreign_processes_and_those_that_do_not_show() -> None:
    assert watched(pids=(ME, 7)).codes() == [FOREIGN_GPU_PROCESS]
    assert watched(pids=()).codes() == [GPU_PROCESSES_NOT_VISIBLE]
    # Other numbers than ours: a container's, so who is foreign is unknown.
    assert watched(pids=(7, 8)).codes() == [GPU_PROCESSES_NOT_VISIBLE]
    assert Observed().codes() == [GPU_PROCESSES_NOT_VISIBLE]


def test_only_the_timed_device_matters() -> None:
    quiet, busy = watched(), watched(pids=(ME, 7))
    assert machine_codes("cuda", busy, foreign_cores=3.0) == [FOREIGN_GPU_PROCESS]
    assert machine_codes("cpu", busy, foreign_cores=3.0) == [FOREIGN_CPU_LOAD]
    assert machine_codes("cpu", Observed(), foreign_cores=0.2) == []
    assert machine_codes("cpu", Observed(), foreign_cores=None) == []
    assert machine_codes("cuda", quiet, foreign_cores=None) == []
    row = run_row("dense", 1.0, 0, reason_codes=["no_warm_up"])
    add_to(row, [THROTTLED, "no_warm_up"])
    assert row["reason_codes"] == ["no_warm_up", THROTTLED]


def test_energy_per_step() -> None:
    spent = Observed.of([Reading("energy", "J", 30.0, "measured")])
    assert per_step(spent, 60) == 0.5
    assert per_step(spent + spent, 60) == 1.0
    assert per_step(spent, 0) is None
    lost = Observed.of([Reading("energy", "J", None, "unsupported")])
    assert per_step(spent + lost, 60) is None
    assert per_step(Observed(), 60) is None


def test_what_several_processes_saw_adds_up() -> None:
    parts = [watched(1000), watched(1500, 1600), Observed()]
    whole = Observed.together(pickle.loads(pickle.dumps(parts)))
    assert whole == Observed.together(parts)
    clock = whole.fields["sm_clock"]
    assert (clock.low, clock.high, clock.readings) == (1000, 1600, 3)
    assert clock.mean == pytest.approx(4100 / 3)
    assert Observed.together([]) == Observed()


@pytest.mark.parametrize(
    "seen",
    [
        watched(1000, 1500, reasons=0x24),
        watched(1500) + watched(1340) + watched(1200, pids=(ME, 7)),
        Observed.of(sample(None)),
        watched() + Observed.of([Reading("energy", "J", None, "unsupported")]),
        Observed(),
    ],
    ids=["whole", "several", "absent", "energy lost", "nothing"],
)
def test_what_was_seen_comes_back_from_its_rows(seen: Observed) -> None:
    again = Observed.from_rows(seen.rows())
    assert again.rows() == seen.rows()
    assert again.codes(2000) == seen.codes(2000)
    assert again.energy_j == seen.energy_j
    assert (again + again).rows()[0] == (seen + seen).rows()[0]


def test_rows_are_recorded_and_records_of_the_past_are_read(tmp_path: Path) -> None:
    nvml, run = FakeNvml("a", pids=(ME,)), run_row("dense", 1.0, 0)
    rows = telemetry_rows({"start": sample(0, nvml), "end": sample(None)}, watched(1400, 1600))
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], {"runs": [run], "telemetry": rows})
    back = store.arrow("telemetry").to_pylist()
    clocks = {(r["moment"], r["statistic"]): r["value"] for r in back if r["field"] == "sm_clock"}
    assert clocks == {
        ("start", None): 1000,
        ("end", None): None,
        ("timed", "min"): 1400,
        ("timed", "mean"): 1500,
        ("timed", "max"): 1600,
    }
    path = store.folder / "telemetry" / f"{run['run_id']}.parquet"
    old = pq.read_table(path).drop_columns(["statistic", "readings"])
    pq.write_table(old, path)
    assert {row["statistic"] for row in store.arrow("telemetry").to_pylist()} == {None}


def test_every_code_has_words() -> None:
    from bench import reason_codes

    codes = {v for k, v in vars(reason_codes).items() if k.isupper() and isinstance(v, str)}
    assert codes == set(MEANINGS)
    assert all("\n" not in meaning for meaning in MEANINGS.values())
    assert worded(THROTTLED).startswith("throttled: the GPU's clock")
    assert worded("from_the_future") == "from_the_future"
