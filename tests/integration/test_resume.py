"""A run whose processes are killed, and the same command again: the tables of a run left alone."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.checkpoints.files import LAST, CheckpointFolder
from bench.checkpoints.model import load_selected, state_of
from bench.checkpoints.policy import Checkpointing
from bench.errors import UsageError
from bench.evaluation import evaluate
from bench.run_command import Manner, run_command
from bench.store import StudyStore
from bench.workloads.build import load_data
from bench.workloads.registry import get_workload
from methods.units import find_layers
from tests.support.checkpointed import differences, spec_of

STEPS, BATCH = 120, 16
METHOD = "barter"

TIMES = ("_ms", "wall_s", "started_at", "foreign_cpu_cores", "git_commit", "environment_json")
"""Ends of the names of columns that tell of the machine and the moment."""


def command(results: Path) -> list[str]:
    """`bench run` of one run, checkpointed, as a person would type it."""
    words = "run --device cpu --study small --seeds 0 --keep-checkpoints --checkpoint-every 10"
    words += f" --methods {METHOD} --density 0.1 --steps {STEPS} --batch-size {BATCH}"
    words += f" --results {results}"
    return [sys.executable, "-m", "bench.cli", *words.split()]


def table(store: StudyStore, name: str) -> list[dict[str, Any]]:
    """Its rows without what differs from one sitting to the next."""
    rows = store.arrow(name).to_pylist()
    return [{k: v for k, v in row.items() if not k.endswith(TIMES)} for row in rows]


def without_warm_up(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each process has a warm-up of its own."""
    return [row | {"flags": [f for f in row["flags"] if f != "warm_up"]} for row in steps]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    results = tmp_path_factory.mktemp("alone")
    subprocess.run(command(results), check=True, stdout=subprocess.DEVNULL)
    return StudyStore(results, "small")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyStore, str]:
    """All processes of a run die at once; then the same command. The store and what it said."""
    results = tmp_path_factory.mktemp("killed")
    with subprocess.Popen(
        command(results), stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 120
        while not list(results.rglob("last.json")) and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it was over before it was killed"
    assert not list(results.rglob("*.parquet"))
    again = subprocess.run(command(results), check=True, capture_output=True, text=True)
    return StudyStore(results, "small"), again.stdout


def run_of(store: StudyStore) -> dict[str, Any]:
    (row,) = store.finished().values()
    return row


def last_state(store: StudyStore) -> Any:
    files = CheckpointFolder(store.checkpoints_folder / run_of(store)["run_id"])
    header = files.header(LAST)
    assert header is not None
    assert header["step"] == STEPS
    return state_of(files, header)["session"]


def test_resumed_run_says_so(killed: tuple[StudyStore, str], alone: StudyStore) -> None:
    store, output = killed
    assert "was interrupted, goes on from its checkpoint after step " in output
    assert run_of(store)["resumed"] == 1
    assert "resumed" in run_of(store)["reason_codes"]
    assert run_of(alone)["resumed"] == 0
    assert "resumed" not in run_of(alone)["reason_codes"]


def test_records_are_those_of_a_run_left_alone(
    killed: tuple[StudyStore, str], alone: StudyStore
) -> None:
    store, _ = killed
    for name in ("evals", "updates"):
        assert table(store, name) == table(alone, name), name
    steps, expected = table(store, "steps"), table(alone, "steps")
    assert without_warm_up(steps) == without_warm_up(expected)
    warm = [row["step"] for row in steps if "warm_up" in row["flags"]]
    assert warm[:5] == [1, 2, 3, 4, 5]
    assert len(warm) == 10
    (run,), (other,) = table(store, "runs"), table(alone, "runs")
    own = ("resumed", "reason_codes")
    assert {k: v for k, v in run.items() if k not in own} == {
        k: v for k, v in other.items() if k not in own
    }


def test_state_at_the_end_is_that_of_a_run_left_alone(
    killed: tuple[StudyStore, str], alone: StudyStore
) -> None:
    assert differences(last_state(killed[0]), last_state(alone)) == []


def test_selected_model_is_what_the_record_says(alone: StudyStore) -> None:
    row = run_of(alone)
    selected = load_selected(alone.checkpoints_folder / row["run_id"])
    assert (selected.step, selected.method) == (row["selected_step"], METHOD)
    heads, channels = find_layers(selected.model)
    assert tuple(layer.width for layer in heads) == selected.topology.heads_per_layer
    assert tuple(layer.width for layer in channels) == selected.topology.channels_per_layer
    assert sum(p.numel() for p in selected.model.parameters()) == row["stored_parameters"]
    torch.set_num_threads(1)
    test = evaluate(selected.model, load_data(get_workload("vit-digits"), 0, BATCH, "cpu"), "test")
    assert test is not None
    assert (test.loss, test.top1_percent) == (row["test_loss"], row["test_top1_percent"])


def one_run(results: Path, asked: Checkpointing) -> int:
    """`bench run` of one short run; its exit code."""
    given = {"device": "cpu", "name": "small", "methods": "static", "density": "0.5"}
    given |= {"seeds": "0", "steps": "16", "batch_size": "4"}
    console = Console(file=io.StringIO())
    return run_command(None, given, Manner(results, console, checkpointing=asked))


def test_unusable_checkpoint_ends_the_call_and_leaves_no_row(tmp_path: Path) -> None:
    store, run_id = StudyStore(tmp_path, "small"), spec_of("static").run_id
    files = CheckpointFolder(store.checkpoints_folder / run_id)
    files.write_header(LAST, {"schema_version": 2})
    with pytest.raises(UsageError, match="newer than this program's 1"):
        one_run(tmp_path, Checkpointing())
    assert not list(tmp_path.rglob("*.parquet"))


def test_state_that_only_the_runs_process_can_judge_is_refused_too(tmp_path: Path) -> None:
    store, spec = StudyStore(tmp_path, "small"), spec_of("static")
    files = CheckpointFolder(store.checkpoints_folder / spec.run_id)
    assert one_run(tmp_path, Checkpointing(keep=True)) == 0
    header = files.header(LAST, spec)
    assert header is not None
    files.write_header(LAST, header | {"state": {"map": []}})
    record = store.folder / "runs" / f"{spec.run_id}.parquet"
    record.unlink()
    with pytest.raises(UsageError, match="does not fit static on vit-digits"):
        one_run(tmp_path, Checkpointing())
    assert not record.exists()


def test_nothing_is_left_unless_asked_for(tmp_path: Path) -> None:
    assert one_run(tmp_path, Checkpointing(every=4)) == 0
    assert len(StudyStore(tmp_path, "small").finished()) == 1
    assert not (tmp_path / "small" / "checkpoints").exists()
