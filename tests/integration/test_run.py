"""`bench run` from request to records: real processes, real files."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bench import run_process
from bench.method_registry import METHODS, get_method
from bench.plan import plan_rows
from bench.run_command import Manner, run_command
from bench.schema import TABLES
from bench.store import StudyStore
from bench.workloads.registry import get_workload
from reports.page import render

STEPS, BATCH = 40, 16


def run(results: Path, **given: Any) -> tuple[int, str]:
    """`bench run` with these options; exit code and what it printed."""
    text = io.StringIO()
    options = {"device": "cpu", "steps": STEPS, "batch_size": BATCH, "name": "small", **given}
    code = run_command(None, options, Manner(results, Console(file=text, width=200)))
    return code, text.getvalue()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    results = tmp_path_factory.mktemp("results")
    code, output = run(results, methods="dense,static,barter", seeds="0")
    assert code == 0, output
    return StudyStore(results, "small")


def rows(store: StudyStore, table: str) -> list[dict[str, Any]]:
    return store.arrow(table).to_pylist()


def by_method(store: StudyStore) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in rows(store, "runs")}


def of_run(store: StudyStore, table: str, run_id: str) -> list[dict[str, Any]]:
    return [row for row in rows(store, table) if row["run_id"] == run_id]


def test_every_run_has_a_complete_row(store: StudyStore) -> None:
    runs = by_method(store)
    assert runs.keys() == {"dense", "static", "barter"}
    may_be_null = {"driver", "reason", "peak_reserved_bytes", "git_commit", "energy_j_per_step"}
    may_be_null |= {"start", "start_run_id", "steps_before", "training_macs_before"}
    may_be_null |= {"mode"} | {
        c.name for c in TABLES["runs"] if c.meaning.startswith("of mode time")
    }
    transfers = {column.name for column in TABLES["runs"] if "transfers" in column.name}
    for method, row in runs.items():
        assert row["status"] == "ok"
        assert row["device"] == "cpu"
        assert row["schedule_shortened"]
        assert not row["synthetic_data"]
        empty = {name for name, value in row.items() if value is None} - may_be_null
        assert empty == (set() if method == "barter" else transfers)
        config = json.loads(row["config_json"])
        assert config["recipe"]["learning_rate"] > 0
        assert config["total_steps"] == STEPS
        environment = json.loads(row["environment_json"])
        assert environment["torch_version"] == row["torch_version"]
        assert "hostname" not in environment


def test_steps_are_recorded_one_by_one(store: StudyStore) -> None:
    for row in by_method(store).values():
        steps = of_run(store, "steps", row["run_id"])
        assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
        for step in steps:
            spans = sum(
                step[f"{name}_ms"] for name in ("forward", "backward", "optimizer", "topology")
            )
            assert spans == pytest.approx(step["step_ms"], rel=1e-6)
            assert step["loss"] > 0
            assert step["peak_allocated_bytes"] > 0
            assert step["peak_reserved_bytes"] is None
        assert [step["step"] for step in steps if "warm_up" in step["flags"]] == [1, 2, 3, 4]
        assert steps[0]["learning_rate"] < max(step["learning_rate"] for step in steps)
        assert row["peak_allocated_bytes"] == max(step["peak_allocated_bytes"] for step in steps)


def test_counted_macs_equal_the_closed_form(store: StudyStore) -> None:
    workload = get_workload("vit-digits")
    for row in by_method(store).values():
        (planned,) = plan_rows([workload], [get_method(row["method"])], [row["density"]])
        forward, training = planned["macs_forward_per_image"], planned["macs_train_per_image"]
        assert row["macs_forward_per_image"] == forward
        assert row["macs_forward_per_image"] + row["macs_backward_per_image"] == training
        for step in of_run(store, "steps", row["run_id"]):
            assert step["training_macs"] == step["ideal_training_macs"] == training * BATCH
        assert row["training_macs_total"] == training * BATCH * STEPS
        assert row["ideal_training_macs_total"] == row["training_macs_total"]
        assert row["budget_invariant"] == "exact"
        assert "budget_broken" not in row["reason_codes"]
        assert row["allowed_parameters"] == row["active_parameters"]
        assert row["stored_parameters"] == planned["parameters"]


def test_budgets_hold_and_transfers_are_records(store: StudyStore) -> None:
    runs = by_method(store)
    barter, static = runs["barter"], runs["static"]
    assert (barter["scheduled_head_transfers"], barter["scheduled_channel_transfers"]) == (2, 35)
    assert (barter["executed_head_transfers"], barter["executed_channel_transfers"]) == (2, 35)
    assert barter["skipped_transfers"] == 0
    updates = of_run(store, "updates", barter["run_id"])
    assert len(updates) == 37
    assert barter["executed_updates"] == len({row["step"] for row in updates})
    assert not of_run(store, "updates", static["run_id"])
    steps = of_run(store, "steps", barter["run_id"])
    assert {sum(step["heads_per_layer"]) for step in steps} == {10}
    assert {sum(step["channels_per_layer"]) for step in steps} == {154}
    # Each recorded transfer is the difference between two steps' widths.
    for before, after in pairwise(steps):
        for unit_type in ("head", "channel"):
            widths = f"{unit_type}s_per_layer"
            change = np.subtract(after[widths], before[widths])
            expected = np.zeros(4, int)
            for row in updates:
                if (row["step"], row["unit_type"]) == (before["step"], unit_type):
                    expected[row["receiver_layer"]] += 1
                    expected[row["donor_layer"]] -= 1
            assert change.tolist() == expected.tolist()
    for row in (barter, static):
        assert row["active_parameters_min"] == row["active_parameters_max"]
        assert row["active_parameters"] == row["stored_parameters"]
        # Within one channel of the budget.
        assert 0 <= row["budget_parameters"] - row["active_parameters"] < 129
    assert runs["dense"]["budget_parameters"] == runs["dense"]["active_parameters"]


def test_collecting_costs_memory_of_scores_not_of_activations(store: StudyStore) -> None:
    """BARTER's peak stays within its scores and one product of Static's at the same widths."""
    runs = by_method(store)
    excess = runs["barter"]["peak_allocated_bytes"] / runs["static"]["peak_allocated_bytes"]
    assert 1 <= excess < 1.05
    assert runs["static"]["peak_allocated_bytes"] < runs["dense"]["peak_allocated_bytes"]


def test_evaluations(store: StudyStore) -> None:
    workload = get_workload("vit-digits")
    for row in by_method(store).values():
        evals = of_run(store, "evals", row["run_id"])
        validation = [entry for entry in evals if entry["split"] == "validation"]
        (test,) = [entry for entry in evals if entry["split"] == "test"]
        best = max(validation, key=lambda entry: (entry["top1_percent"], -entry["loss"]))
        assert row["selected_step"] == best["step"] == test["step"]
        assert row["test_top1_percent"] == test["top1_percent"]
        assert {entry["images"] for entry in validation} == {workload.validation_images}
        assert test["images"] == workload.test_images
        steps = of_run(store, "steps", row["run_id"])
        spent = sum(step["training_macs"] for step in steps[: test["step"]])
        assert test["cumulative_training_macs"] == spent


def test_telemetry_says_what_it_could_not_read(store: StudyStore) -> None:
    for row in by_method(store).values():
        readings = of_run(store, "telemetry", row["run_id"])
        assert {reading["moment"] for reading in readings} == {"start", "end", "timed"}
        assert all((r["value"] is None) == (r["status"] != "measured") for r in readings)


def snapshot(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


def test_finished_runs_are_kept_and_seeds_can_be_added(store: StudyStore) -> None:
    before = snapshot(store.folder)
    code, output = run(store.root, methods="barter,dense,static", seeds="0")
    assert code == 0
    assert "0 runs to do, 3 finished runs kept" in output
    assert snapshot(store.folder) == before


def test_two_runs_of_one_seed_are_identical(store: StudyStore, tmp_path: Path) -> None:
    code, _ = run(tmp_path, methods="barter", seeds="0")
    assert code == 0
    again = StudyStore(tmp_path, "small")
    run_id = by_method(store)["barter"]["run_id"]
    for column in ("loss", "heads_per_layer", "channels_per_layer", "peak_allocated_bytes"):
        assert [step[column] for step in of_run(store, "steps", run_id)] == [
            step[column] for step in rows(again, "steps")
        ]
    assert of_run(store, "updates", run_id) == rows(again, "updates")


def test_static_and_barter_share_their_start(store: StudyStore) -> None:
    runs = by_method(store)
    static, barter = (of_run(store, "steps", runs[name]["run_id"]) for name in ("static", "barter"))
    first = min(row["step"] for row in of_run(store, "updates", runs["barter"]["run_id"]))
    for one, other in zip(static[:first], barter[:first], strict=True):
        assert one["loss"] == other["loss"]
    assert static[first]["loss"] != barter[first]["loss"]


def die(*_arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(task: Any, sender: Any) -> None:
    import bench.worker as worker

    def broken(*_arguments: Any) -> None:
        raise RuntimeError("first line\nsecond line")

    worker.build_session = broken
    worker.work(worker.Task(*task), sender)


@pytest.mark.parametrize(
    ("worker", "reason"),
    [(die, "its process died (exit code -9)"), (fail, "RuntimeError: first line second line")],
)
def test_failing_run_is_a_row_and_loses_nothing(
    worker: Callable[..., None],
    reason: str,
    store: StudyStore,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert run(tmp_path, methods="dense", seeds="0", steps=4)[0] == 0
    kept = snapshot(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(run_process, "_work", worker)
        code, output = run(tmp_path, methods="dense,static", seeds="0", steps=4)
    assert code == 1
    assert reason in output
    results = StudyStore(tmp_path, "small")
    assert by_method(results)["static"]["status"] == "failed"
    assert reason in by_method(results)["static"]["reason"]
    after = snapshot(tmp_path)
    assert {path: after[path] for path in kept} == kept
    # A failed run is tried again; a finished one is not.
    code, output = run(tmp_path, methods="dense,static", seeds="0", steps=4)
    assert code == 0
    assert "1 run to do, 1 finished run kept" in output
    assert by_method(results)["static"]["status"] == "ok"


def test_density_without_a_topology_is_a_skipped_run_with_its_reason(tmp_path: Path) -> None:
    code, output = run(tmp_path, methods="dense,set,srigl", seeds="0", steps=20, density="0.012")
    assert code == 0, output
    results = StudyStore(tmp_path, "small")
    runs = by_method(results)
    assert {name: row["status"] for name, row in runs.items()} == {
        "dense": "ok",
        "set": "ok",
        "srigl": "skipped",
    }
    assert "a constant fan-in of at least 1 needs" in runs["srigl"]["reason"]
    console = Console(file=io.StringIO(), width=200)
    render(results, console)
    page = (results.report_folder / "report.md").read_text()
    assert "skipped" in page
    assert runs["srigl"]["reason"] in page


def test_ctrl_c_during_start_up_is_quiet_and_leaves_no_process(tmp_path: Path) -> None:
    """A terminal sends SIGINT to every process of the group, also to the server that imports."""
    command = [sys.executable, "-m", "bench.cli", "run", "--device", "cpu", "--steps", "20"]
    with subprocess.Popen(
        [*command, "--results", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("study ")
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; 0 finished runs kept" in output
    assert errors == ""
    assert_group_ends(process.pid)


def test_workers_die_with_the_process_that_watches_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.cli", "run", "--device", "cpu", "--seeds", "0"]
    command += ["--methods", "static", "--steps", "5000", "--batch-size", "16"]
    with subprocess.Popen(
        [*command, "--results", str(tmp_path)], stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.rglob("*.log")) and time.monotonic() < deadline:
            time.sleep(0.05)
        second = subprocess.run(
            [*command, "--results", str(tmp_path)], check=False, capture_output=True, text=True
        )
        process.kill()
    assert second.returncode == 2
    assert f"is being run by process {process.pid}" in second.stderr
    assert_group_ends(process.pid)
    assert not list(tmp_path.rglob("*.parquet"))


def assert_group_ends(group: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the run lives on")


def test_watching_process_never_loads_torch(tmp_path: Path) -> None:
    """It would compute while the first run is being timed."""
    script = f"""
import sys
sys.argv = ["bench", "run", "--steps", "20", "--batch-size", "16", "--seeds", "0"]
sys.argv += ["--device", "cpu", "--methods", "static", "--results", {str(tmp_path)!r}]
from bench.cli import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
assert not {{"torch", "timm", "sklearn"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


def test_run_whose_record_is_incomplete_is_repeated(tmp_path: Path) -> None:
    assert run(tmp_path, methods="dense,static", seeds="0", steps=4)[0] == 0
    store = StudyStore(tmp_path, "small")
    dense = by_method(store)["dense"]["run_id"]
    (store.folder / "updates" / f"{dense}.parquet").unlink()
    assert store.incomplete() == [dense]
    code, output = run(tmp_path, methods="dense,static", seeds="0", steps=4)
    assert code == 0
    assert "1 run to do, 1 finished run kept" in output
    assert store.incomplete() == []


def test_interrupted_study_keeps_what_is_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.cli", "run", "--device", "cpu", "--study", "small"]
    command += ["--results", str(tmp_path), "--seeds", "0,1,2", "--methods", "static"]
    quick = [*command, "--steps", "30", "--batch-size", "16"]
    process = subprocess.Popen(quick, stdout=subprocess.PIPE, text=True)
    folder = tmp_path / "small" / "runs"
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; " in output
    store = StudyStore(tmp_path, "small")
    finished = len(rows(store, "runs"))
    assert 1 <= finished < 3
    assert not list(store.folder.rglob("*.tmp"))
    assert len(rows(store, "steps")) == 30 * finished
    done = subprocess.run(quick, check=True, capture_output=True, text=True)
    assert f", {finished} finished run" in done.stdout
    assert len(rows(store, "runs")) == 3


@pytest.mark.parametrize("workload", ["vit-tiny-imagenet", "cct-cifar100", "vit-cifar100-finetune"])
def test_full_size_models_run_with_all_methods(workload: str, tmp_path: Path) -> None:
    methods = METHODS if workload == "vit-tiny-imagenet" else ("dense", "barter")
    code, output = run(
        tmp_path,
        workload=workload,
        methods=",".join(methods),
        seeds="0",
        steps=3,
        batch_size=4,
    )
    assert code == 0, output
    store = StudyStore(tmp_path, "small")
    for row in rows(store, "runs"):
        assert row["synthetic_data"]
        assert "synthetic_data" in row["reason_codes"]
        assert row["test_top1_percent"] is None
        if row["method"] not in ("snfs", "srigl"):  # these track their budget
            assert row["active_parameters_min"] == row["active_parameters_max"]
        (planned,) = plan_rows(
            [get_workload(workload)], [get_method(row["method"])], [row["density"]]
        )
        assert row["macs_forward_per_image"] == planned["macs_forward_per_image"]
        assert (
            row["macs_forward_per_image"] + row["macs_backward_per_image"]
            == planned["macs_train_per_image"]
        )
    assert not rows(store, "evals")
