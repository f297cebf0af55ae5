"""The GPU is watched beside the blocks of a launch: whose process is whose, what is recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.reason_codes import FOREIGN_GPU_PROCESS, TOO_FEW_LAUNCHES
from bench.schema import AGAIN, CONTENDER
from bench.store import StudyStore
from bench.study_file import study_spec
from bench.timing.launcher import Block, Entry, Launcher
from bench.timing.messages import Answer, Ready, Request
from bench.timing.run_record import RunRecord, read_records
from bench.timing.segments import Segment
from tests.unit.nvml_fixture import FakeNvml
from tests.unit.reports_fixture import run_row

STEPS, UNSCORED, BLOCK_J = 10, 2, 6.0


class FakeWorker:
    """Its block takes six joules and leaves the card as hot as it was."""

    ready = Ready((Segment("ordinary", (1,), 100, 1.0),), {"ordinary": 1.0})

    def __init__(self, entry: Entry, pid: int, nvml: FakeNvml) -> None:
        self.entry, self.pid, self._nvml = entry, pid, nvml

    def ask(self, request: Request) -> Answer:
        self._nvml.energy_mj += int(1000 * BLOCK_J)
        return Answer({"ordinary": [1.0] * STEPS}, {"ordinary": UNSCORED}, 0.0)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Processes that start show up on the card, and leave it when they end."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    card = FakeNvml("a")
    card.reasons = 0

    @contextmanager
    def ready(self: Launcher, entry: Entry) -> Iterator[FakeWorker]:
        worker = FakeWorker(entry, 1000 + len(card.pids), card)
        card.pids = (*card.pids, worker.pid)
        try:
            yield worker
        finally:
            card.pids = tuple(pid for pid in card.pids if pid != worker.pid)
            card.energy_mj += 50_000  # what is spent between blocks is in no block

    monkeypatch.setattr(Launcher, "_ready", ready)
    return card


@pytest.fixture
def entries() -> list[Entry]:
    given = {"methods": "dense,static", "density": "0.5", "seeds": "0", "steps": 20}
    dense, static = study_spec(None, given).runs()
    return [Entry(dense, CONTENDER), Entry(static, CONTENDER), Entry(dense, AGAIN)]


def high(block: Block, name: str) -> float:
    return block.observed.fields[name].high


def test_siblings_are_no_foreign_processes(
    nvml: FakeNvml, entries: list[Entry], tmp_path: Path
) -> None:
    launcher = Launcher(tmp_path, device_index=0, rounds=3, nvml=nvml)
    blocks = list(launcher.side_by_side(entries, 0))
    assert len(blocks) == 9
    for block in blocks:
        assert (high(block, "own_processes"), high(block, "foreign_processes")) == (3, 0)
        assert block.observed.energy_j == pytest.approx(BLOCK_J)
        assert block.observed.codes() == []
    assert nvml.sessions == 0


def test_a_block_in_a_process_of_its_own_has_one(
    nvml: FakeNvml, entries: list[Entry], tmp_path: Path
) -> None:
    nvml.pids = (7,)
    for block in Launcher(tmp_path, device_index=0, nvml=nvml).apart(entries, 0):
        assert (high(block, "own_processes"), high(block, "foreign_processes")) == (1, 1)
        assert block.observed.codes() == [FOREIGN_GPU_PROCESS]
    assert nvml.sessions == 0


def test_without_a_gpu_everything_is_absent(
    nvml: FakeNvml, entries: list[Entry], tmp_path: Path
) -> None:
    for block in Launcher(tmp_path, nvml=nvml).side_by_side(entries, 0):
        assert {row["status"] for row in block.observed.rows()} == {"absent"}
    assert nvml.power_readings == 0


def test_energy_and_codes_are_of_all_launches_also_those_of_an_earlier_call(
    nvml: FakeNvml, entries: list[Entry], tmp_path: Path
) -> None:
    launcher, record = Launcher(tmp_path, device_index=0, nvml=nvml), RunRecord()
    static = entries[1].spec.run_id
    store = StudyStore(tmp_path, "demo")
    for number, pids in enumerate([(), (7,)]):
        nvml.pids = pids
        mine = [b for b in launcher.side_by_side(entries, number) if b.run_id == static]
        record.add(mine)
        columns = record.columns()
        assert columns["launches"] == number + 1
        assert columns["energy_j_per_step"] == pytest.approx(BLOCK_J / (STEPS + UNSCORED))
        run: dict[str, Any] = run_row("static", 0.5, 0, run_id=static) | columns
        tables = {"runs": [run], "blocks": record.blocks, "telemetry": record.telemetry()}
        store.write_run(static, tables)
        record = read_records(store, [static])[static]  # as the next call would
        assert record.columns() == columns
    assert record.codes("cuda") == [FOREIGN_GPU_PROCESS, TOO_FEW_LAUNCHES]
    clock = [row for row in record.telemetry() if row["field"] == "sm_clock"]
    assert [row["launch"] for row in clock] == [0, 0, 0, 1, 1, 1]
    del record.observed[0]
    assert record.columns()["energy_j_per_step"] is None, "not all of it was counted"


def test_a_run_that_was_not_timed_before_has_no_record(tmp_path: Path) -> None:
    assert read_records(StudyStore(tmp_path, "new"), ["a"]) == {}
