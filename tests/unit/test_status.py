"""`bench status`: where each run of a study is."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.checkpoints.files import CHECKPOINT_VERSION, LAST, CheckpointFolder
from bench.errors import UsageError
from bench.lock import exclusive
from bench.progress import Progress
from bench.run_rows import failed_run, run_identity
from bench.run_spec import RunSpec
from bench.running_note import Noting, running_note
from bench.schema import OK
from bench.status import states_of, status_command
from bench.store import StudyStore
from bench.study_claim import claim
from bench.study_file import study_spec


class Nothing:
    def begin(self, runs: Any, finished: int) -> None: ...
    def run_started(self, spec: RunSpec, done_before: int) -> None: ...
    def run_progress(self, spec: RunSpec, progress: Progress) -> None: ...
    def run_ended(self, spec: RunSpec, row: Any) -> None: ...
    def end(self) -> None: ...


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    store = StudyStore(tmp_path, "mine")
    given = {"name": "mine", "steps": 40, "methods": "dense,static,barter,rigl,set", "seeds": "0"}
    claim(store, replace(study_spec(None, given), device="cpu"))
    return store


def runs(store: StudyStore) -> dict[str, RunSpec]:
    return {state.run.method: state.run for state in states_of(store)}


def finish(store: StudyStore, run: RunSpec, **changes: Any) -> None:
    row = run_identity(run, "mine") | {"status": OK, "wall_s": 4.0, "test_top1_percent": 91.25}
    row |= {"training_macs_total": 1e9}
    store.write_run(run.run_id, {"runs": [row | changes]})


def shown(store: StudyStore) -> str:
    text = io.StringIO()
    status_command("mine", store.root, Console(file=text, width=200))
    return text.getvalue()


def test_every_state(store: StudyStore) -> None:
    by_method = runs(store)
    finish(store, by_method["dense"])
    failed = failed_run(
        run_identity(by_method["static"], "mine"), "diverged: loss is nan at step 3"
    )
    store.write_run(by_method["static"].run_id, {"runs": [failed]})
    barter, rigl = by_method["barter"], by_method["rigl"]
    files = CheckpointFolder(store.checkpoints_folder / barter.run_id)
    header = {"schema_version": CHECKPOINT_VERSION, "run_id": barter.run_id, "step": 30}
    header |= {"workload": "vit-digits", "selected": None}
    header["topology"] = {"heads_per_layer": [2] * 4, "channels_per_layer": [38] * 4}
    files.write_header(LAST, header | files.write_tensors(LAST, 30, b"x"))
    with exclusive(store.folder):
        display = Noting(Nothing(), store)
        display.run_started(rigl, 0)
        display._at = float("-inf")  # as if the last note were old
        display.run_progress(rigl, Progress(7, 40, 1.5, 60.0, 2e9))
        states = {state.run.method: state for state in states_of(store)}
        text = shown(store)
    assert {method: state.state for method, state in states.items()} == {
        "dense": "finished",
        "static": "failed",
        "barter": "to do",
        "rigl": "running",
        "set": "to do",
    }
    assert states["dense"].detail == "test top-1 91.2 %, 2 GFLOPs, 4 s"
    assert states["static"].detail == "diverged: loss is nan at step 3"
    assert (states["barter"].steps, states["set"].steps) == (30, 0)
    assert states["rigl"].steps == 7
    assert states["rigl"].detail == "loss 1.500, validation 60.0 %, 2 GFLOPs"
    assert "5 runs: 1 finished, 1 failed, 2 to do, 1 running; process" in text


def test_a_note_of_a_process_that_died_is_not_believed(store: StudyStore) -> None:
    rigl = runs(store)["rigl"]
    Noting(Nothing(), store).run_started(rigl, 0)
    states = {state.run.method: state.state for state in states_of(store)}
    assert states["rigl"] == "to do"


def test_the_note_goes_with_its_study(store: StudyStore) -> None:
    display = Noting(Nothing(), store)
    display.run_started(runs(store)["rigl"], 0)
    assert running_note(store)
    display.end()
    assert not running_note(store)
    store.running_file.write_text("{broken")
    assert running_note(store) == {}


def test_a_run_that_lost_a_file_is_to_do(store: StudyStore) -> None:
    dense = runs(store)["dense"]
    finish(store, dense)
    (store.folder / "steps" / f"{dense.run_id}.parquet").unlink()
    assert {s.run.method: s.state for s in states_of(store)}["dense"] == "to do"


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "mine"}', '{"grids": 3}'])
def test_a_damaged_study_is_one_line(store: StudyStore, content: str) -> None:
    store.study_file.write_text(content)
    with pytest.raises(UsageError) as refused:
        shown(store)
    assert "\n" not in str(refused.value)


def test_no_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no study in"):
        status_command(None, tmp_path, Console(file=io.StringIO()))
