"""Which checkpoints runs start from, found before anything is run. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.checkpoints.files import LAST, SELECTED, CheckpointFolder, Header
from bench.errors import UsageError
from bench.method_registry import get_method
from bench.modes import TRAIN
from bench.run_spec import RunSpec
from bench.schema import OK
from bench.spec import StudySpec
from bench.start import CONTINUE, FINETUNE, Start, matching_steps
from bench.store import StudyStore
from bench.study_claim import recorded
from bench.workloads.registry import Workload, get_workload
from methods.budget import unit_budget


def with_starts(spec: StudySpec, runs: Sequence[RunSpec], root: Path) -> list[RunSpec]:
    """The runs of a study, each with the checkpoint that it starts from.

    Args:
        runs: of `spec`, with their data found.
        root: results folder in which other studies are looked for.

    Raises:
        UsageError: a checkpoint is missing, or cannot be started from.
    """
    if spec.init_from:
        runs = [_fine_tuned(run, spec.init_from, root) for run in runs]
    if spec.continue_from:
        store = StudyStore(root, spec.continue_from)
        rows = store.finished()
        runs = [_continued(run, store, rows) for run in runs if _steps_left(run)]
        if not runs:
            raise UsageError(f"--continue-from {spec.continue_from}: no run costs less than dense")
    return list(runs)


def planned_starts(spec: StudySpec, runs: Sequence[RunSpec], root: Path) -> list[RunSpec]:
    """The same for a list of what is to come: where nothing can be started from yet, the runs are
    as long as they will be, and have no start."""
    try:
        return with_starts(spec, runs, root)
    except UsageError:
        if spec.continue_from is None:
            return list(runs)
        return [replace(r, total_steps=steps) for r in runs if (steps := _steps_left(r))]


def continued_study(name: str, root: Path) -> StudySpec:
    """The study that goes on with the compact sparse runs of another one: masked ones have already
    spent what dense ones do.

    Raises:
        UsageError: that study cannot be continued.
    """
    store = StudyStore(root, name)
    store.require()
    spec = recorded(store)
    if spec.mode != TRAIN:
        raise UsageError(f"--continue-from {name}: that study is of mode {spec.mode}")
    if spec.continue_from:
        raise UsageError(f"--continue-from {name}: that study continues {spec.continue_from}")
    return compact_only(spec, f"{name}-matched", name)


def compact_only(spec: StudySpec, name: str, source: str) -> StudySpec:
    """The study `name` that goes on with the compact sparse runs of `spec`, whose name is
    `source`. Raises UsageError if there are none."""
    grids = []
    for grid in spec.grids:
        compact = [str(c) for c in grid.contenders if c.method.sparse and not c.method.masked]
        if compact:
            grids.append(replace(grid, methods=tuple(compact)))
    if not grids:
        raise UsageError(f"--continue-from {source}: that study has no compact sparse method")
    return replace(spec, name=name, grids=tuple(grids), continue_from=source)


# ---------------------------------------------------------------- fine-tuning


def _fine_tuned(run: RunSpec, source: str, root: Path) -> RunSpec:
    files = _dense_checkpoints(run, source, root)
    header = _header(files, SELECTED, source)
    _check_dense(header, files.path, get_workload(run.workload))
    start = Start(FINETUNE, header["run_id"], folder=str(files.path.resolve()))
    return replace(run, start=start)


def _dense_checkpoints(run: RunSpec, source: str, root: Path) -> CheckpointFolder:
    """Where the dense run of this run's seed left its model."""
    given = Path(source)
    if (given / f"{SELECTED}.json").is_file():
        return CheckpointFolder(given)
    looks_like_path = given.is_dir() and ("/" in source or not (root / source).is_dir())
    store = StudyStore(given.parent, given.name) if looks_like_path else StudyStore(root, source)
    store.require()
    dense = [r for r in store.finished().values() if r["method"] == "dense" and r["status"] == OK]
    target = get_workload(run.workload)
    fitting = [
        r for r in dense if _architecture(get_workload(r["workload"])) == _architecture(target)
    ]
    if dense and not fitting:
        names = ", ".join(sorted({r["workload"] for r in dense}))
        raise UsageError(
            f"--init-from {source}: its dense runs are of {names}, another architecture than that"
            f" of {target.name}"
        )
    mine = [r for r in fitting if r["seed"] == run.seed]
    if len(mine) > 1:
        raise UsageError(
            f"--init-from {source}: {len(mine)} dense runs with seed {run.seed} fit; name the"
            f" checkpoints of one, e.g. {store.checkpoints_folder / mine[0]['run_id']}"
        )
    if not mine:
        there = ", ".join(sorted({str(r["seed"]) for r in fitting})) or "none"
        raise UsageError(
            f"--init-from {source}: no finished dense run with seed {run.seed} (seeds: {there})"
        )
    return CheckpointFolder(store.checkpoints_folder / mine[0]["run_id"])


def _check_dense(header: Header, folder: Path, target: Workload) -> None:
    """Raise UsageError unless a checkpoint holds a dense model that fits a workload."""
    source = get_workload(header["workload"])
    if header["method"] != "dense":
        info = get_method(header["method"])
        raise UsageError(
            f"--init-from: {folder} is of {info.name} at density {header['density']:g}"
            f" ({'masked' if info.masked else 'compact'}): a dense checkpoint is needed"
        )
    if _architecture(source) != _architecture(target):
        raise UsageError(
            f"--init-from: {folder} is of {source.name}, another architecture than that of"
            f" {target.name}"
        )


def _architecture(workload: Workload) -> object:
    """All of a model's shape but the classes that it tells apart."""
    return replace(workload.shape, classes=0)


# ---------------------------------------------------------------- matched compute


def _steps_left(run: RunSpec) -> int:
    """Steps until a compact run has cost what the dense one does; 0 at density 1."""
    shape = get_workload(run.workload).shape
    blocks = shape.blocks
    budget = unit_budget(blocks, run.density)
    dense = shape.macs_training(blocks.total_heads, blocks.total_channels)
    compact = shape.macs_training(budget.heads, budget.channels)
    return matching_steps(run.total_steps, dense, compact)


def _continued(run: RunSpec, store: StudyStore, rows: Mapping[str, Mapping[str, Any]]) -> RunSpec:
    row = rows.get(run.run_id)
    if row is None or row["status"] != OK:
        raise UsageError(
            f"--continue-from {store.study}: {run.title} is not finished; repeat its `bench run`"
        )
    files = CheckpointFolder(store.checkpoints_folder / run.run_id)
    header = _header(files, LAST, store.study)
    if header["step"] != run.total_steps:
        raise UsageError(
            f"{files.path} stands at step {header['step']:,}, not at its run's end"
            f" ({run.total_steps:,}): repeat that study's `bench run` with --keep-checkpoints"
        )
    start = Start(
        CONTINUE,
        run.run_id,
        run.total_steps,
        str(files.path.resolve()),
        row["training_macs_total"],
    )
    return replace(run, total_steps=_steps_left(run), start=start)


def _header(files: CheckpointFolder, kind: str, source: str) -> Header:
    header = files.header(kind)
    if header is None:
        raise UsageError(
            f"{source} kept no checkpoints ({files.path}): run it under another name, with"
            " --keep-checkpoints"
        )
    return header
