"""Fine-tuning from dense models, and going on with compact ones, through the command."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.checkpoints.files import LAST, CheckpointFolder
from bench.checkpoints.keeper import CheckpointKeeper
from bench.checkpoints.model import load_selected
from bench.checkpoints.policy import Checkpointing
from bench.checkpoints.restore import go_on
from bench.errors import UsageError
from bench.run_command import Manner, run_command
from bench.run_spec import RunSpec
from bench.session import Session, build_session
from bench.snapshot import Snapshot
from bench.starts import continued_study, with_starts
from bench.store import StudyStore
from bench.study_file import study_spec
from bench.train import Training
from methods.units import find_layers
from tests.support.checkpointed import differences, outcome

STEPS, BATCH = 20, 8
CPU = torch.device("cpu")


def bench(results: Path, keep: Any = True, **given: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, width=200)
    manner = Manner(results, console, checkpointing=Checkpointing(keep=keep))
    assert run_command(None, given, manner) == 0, text.getvalue()
    return text.getvalue()


def pretrain(results: Path, keep: bool = True, **given: Any) -> None:
    options = {"workload": "vit-digits-0-4", "methods": "dense", "seeds": "0", "steps": STEPS}
    options |= {"batch_size": BATCH, "device": "cpu", "name": "dense"}
    bench(results, keep, **options | given)


TUNED: Any = {
    "workload": "vit-digits-5-9",
    "methods": "dense,barter,static,rigl",
    "density": "0.3",
    "seeds": "0",
    "steps": STEPS,
    "batch_size": BATCH,
    "device": "cpu",
    "init_from": "dense",
    "name": "tuned",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    pretrain(folder)
    bench(folder, **TUNED)
    bench(folder, continue_from="tuned")
    return folder


def rows(results: Path, study: str) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in StudyStore(results, study).finished().values()}


def tuned_runs(results: Path, **given: Any) -> list[RunSpec]:
    spec = replace(study_spec(None, {**TUNED, **given}), device="cpu")
    return with_starts(spec, spec.runs(), results)


def continued_runs(results: Path) -> dict[str, RunSpec]:
    spec = continued_study("tuned", results)
    return {run.method: run for run in with_starts(spec, spec.runs(), results)}


def test_all_methods_inherit_the_dense_weights_at_the_units_they_select(results: Path) -> None:
    (row,) = rows(results, "dense").values()
    source = load_selected(StudyStore(results, "dense").checkpoints_folder / row["run_id"])
    dense = source.model.state_dict()
    for run in tuned_runs(results, methods="dense,barter,rigl"):
        session = build_session(run, CPU)
        state = session.model.state_dict()
        assert torch.equal(state["pos_embed"], dense["pos_embed"])
        assert not torch.equal(state["head.weight"], dense["head.weight"]), "a new classifier"
        masks = session.method.masks()
        for name, value in state.items():
            if name in masks:
                assert torch.equal(value, dense[name] * masks[name])
            elif run.method == "dense" and not name.startswith("head."):
                assert torch.equal(value, dense[name])
        assert not session.optimizer.state
    # Barter keeps units, and none of their incoming weights is rescaled by default.
    first = find_layers(session_of(results, "barter").model)[1][0]
    kept = {tuple(unit.tolist()) for unit in dense["blocks.0.mlp.fc1.weight"]}
    weight = dict(session_of(results, "barter").model.named_parameters())["blocks.0.mlp.fc1.weight"]
    assert {tuple(unit.tolist()) for unit in weight.detach()} <= kept
    assert len(weight) == first.width


def session_of(results: Path, method: str) -> Session:
    (run,) = tuned_runs(results, methods=method)
    return build_session(run, CPU)


def test_rows_say_what_a_run_started_from(results: Path) -> None:
    (dense,) = rows(results, "dense").values()
    tuned, matched = rows(results, "tuned"), rows(results, "tuned-matched")
    assert {row["start"] for row in tuned.values()} == {"finetune"}
    assert {row["start_run_id"] for row in tuned.values()} == {dense["run_id"]}
    assert matched.keys() == {"barter", "static"}
    for method, row in matched.items():
        before = tuned[method]
        assert (row["start"], row["start_run_id"]) == ("continue", before["run_id"])
        assert row["steps_before"] == STEPS
        assert row["training_macs_before"] == before["training_macs_total"]
        spent = row["training_macs_before"] + row["training_macs_total"]
        one = row["training_macs_total"] / row["total_steps"]
        assert 0 <= spent - tuned["dense"]["training_macs_total"] < one
        assert not row["is_dynamic"]
        assert row["executed_updates"] == 0
        assert row["scheduled_head_transfers"] is None
        assert "no_update_executed" not in row["reason_codes"]
        assert not row["schedule_shortened"]
        evals = StudyStore(results, "tuned-matched").arrow("evals", run_ids=[row["run_id"]])
        last = max(e["cumulative_training_macs"] for e in evals.to_pylist())
        assert last == pytest.approx(spent)


def test_going_on_keeps_everything_but_the_schedule(results: Path) -> None:
    run = continued_runs(results)["barter"]
    session = build_session(run, CPU)
    go_on(session)
    end = CheckpointFolder(StudyStore(results, "tuned").checkpoints_folder / run.start.run_id)  # pyright: ignore
    before = build_session(tuned_runs(results, methods="barter")[0], CPU)
    training = Training(before, lambda progress: None)
    CheckpointKeeper(end, before, Checkpointing(every=0)).resume(training)
    mine, theirs = Snapshot.take(session), Snapshot.take(before)
    assert not differences(vars(mine), vars(theirs))
    steps = {int(s["step"]) for s in session.optimizer.state.values()}
    assert steps == {STEPS}
    topology = session.method.topology()
    images = session.batch(1)[0]
    assert torch.equal(images, before.data.batch(STEPS + 1)[0]), "the data go on, too"
    Training(session, lambda progress: None).run()
    assert session.method.topology() == topology


def test_a_continued_run_that_is_killed_goes_on_as_if_it_were_not(
    results: Path, tmp_path: Path
) -> None:
    run = replace(continued_runs(results)["barter"], total_steps=14)
    whole = continued_training(run)
    whole.run()
    half = continued_training(run)
    keeper = CheckpointKeeper(CheckpointFolder(tmp_path / "x"), half.session, Checkpointing(7))
    half._keeper = keeper  # pyright: ignore[reportPrivateUsage]
    stop_after(half, 7)
    rest = continued_training(run)
    CheckpointKeeper(CheckpointFolder(tmp_path / "x"), rest.session, Checkpointing(0)).resume(rest)
    rest.run()
    assert not differences(outcome(whole), outcome(rest))


def continued_training(run: RunSpec) -> Training:
    session = build_session(run, CPU)
    go_on(session)
    return Training(session, lambda progress: None)


class StopHereError(Exception):
    pass


def stop_after(training: Training, step: int) -> None:
    original = training.session.data.batch
    last = training.session.spec.steps_before + step

    def batch(number: int) -> Any:
        if number > last:
            raise StopHereError
        return original(number)

    training.session.data.batch = batch  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(StopHereError):
        training.run()


def damaged(results: Path, study: str, change: Callable[[Path], None]) -> None:
    (folder,) = (results / study / "checkpoints").iterdir()
    change(folder)


def newer(folder: Path) -> None:
    path = folder / "selected.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))


def misfitting(folder: Path) -> None:
    path = folder / "selected.json"
    header = json.loads(path.read_text())
    header["topology"]["heads_per_layer"][0] = 99
    path.write_text(json.dumps(header))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"init_from": "dens"}, "did you mean 'dense'"),
        ({"init_from": "tuned-matched"}, "no finished dense run with seed 0"),
        ({"seeds": "0,7"}, "no finished dense run with seed 7 (seeds: 0)"),
        ({"workload": "cct-digits"}, "another architecture"),
        ({"mode": "time"}, "--init-from: mode time"),
    ],
)
def test_what_cannot_be_fine_tuned_from(results: Path, given: dict[str, Any], says: str) -> None:
    options = TUNED | {"name": "other"} | given
    with pytest.raises(UsageError) as refused:
        bench(results, **options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (results / "other").exists()


def test_a_compact_checkpoint_is_refused_where_a_dense_one_is_needed(results: Path) -> None:
    barter = rows(results, "tuned")["barter"]["run_id"]
    folder = results / "tuned" / "checkpoints" / barter
    with pytest.raises(UsageError, match=r"of barter at density 0\.3 \(compact\): a dense"):
        bench(results, **TUNED | {"init_from": str(folder), "name": "other"})


def test_a_folder_serves_all_seeds(results: Path) -> None:
    (dense,) = rows(results, "dense").values()
    folder = results / "dense" / "checkpoints" / dense["run_id"]
    runs = tuned_runs(results, init_from=str(folder), seeds="0,1")
    assert {run.start.run_id for run in runs if run.start} == {dense["run_id"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (newer, "newer than this program's"),
        (misfitting, "is damaged"),
        (lambda folder: next(folder.glob("selected-*")).write_bytes(b"x"), "damaged"),
        (shutil.rmtree, "kept no checkpoints"),
    ],
)
def test_damaged_dense_checkpoints(
    results: Path, tmp_path: Path, change: Callable[[Path], None], says: str
) -> None:
    shutil.copytree(results / "dense", tmp_path / "dense")
    damaged(tmp_path, "dense", change)
    with pytest.raises(UsageError) as refused:
        bench(tmp_path, **TUNED)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"continue_from": "tuned-matched"}, "that study continues tuned"),
        ({"continue_from": "dense"}, "no compact sparse method"),
        ({"continue_from": "tuned", "steps": 5}, "leave out --steps"),
        ({"continue_from": "tune"}, "did you mean"),
    ],
)
def test_what_cannot_be_continued(results: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        bench(results, **given)
    assert says in str(refused.value)


def test_a_run_without_its_end_is_not_continued(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results / "dense", tmp_path / "dense")
    shutil.copytree(results / "tuned", tmp_path / "tuned")
    barter = rows(results, "tuned")["barter"]["run_id"]
    folder = tmp_path / "tuned" / "checkpoints" / barter
    header = CheckpointFolder(folder).header(LAST)
    assert header
    CheckpointFolder(folder).write_header(
        LAST, {k: v for k, v in header.items() if k != "digest"} | {"step": 12}
    )
    with pytest.raises(UsageError, match="stands at step 12, not at its run's end"):
        bench(tmp_path, continue_from="tuned")
