"""Files of checkpoints: whole after a kill at any moment, refused in one line if they are not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import files as bench_files
from bench.checkpoints import files as checkpoint_files
from bench.checkpoints.files import LAST, SELECTED, CheckpointError, CheckpointFolder, Header
from bench.checkpoints.keeper import CheckpointKeeper
from bench.checkpoints.model import load_selected
from bench.checkpoints.policy import SHORT_STEPS, Checkpointing
from bench.errors import UsageError
from bench.train import Training
from bench.workloads.registry import Workload
from tests.support.checkpointed import (
    copy_at,
    differences,
    outcome,
    resumed,
    spec_of,
    uninterrupted,
)

SPEC = spec_of("barter")
EVERY, STOP = 4, 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Training, Path]:
    """A run and the checkpoints of one that was stopped half-way."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workload, "eval_interval", lambda self, batch: EVERY)
        return uninterrupted(SPEC, folder, [STOP]), copy_at(folder, STOP)


@pytest.fixture
def folder(whole: tuple[Training, Path], tmp_path: Path) -> Path:
    """A copy of those checkpoints."""
    there = tmp_path / SPEC.run_id
    there.mkdir()
    for path in whole[1].iterdir():
        (there / path.name).write_bytes(path.read_bytes())
    return there


def rewrite(folder: Path, kind: str, **changes: Any) -> None:
    """Change a header as a program would that knows what it does."""
    files = CheckpointFolder(folder)
    header = json.loads((folder / f"{kind}.json").read_text())
    files.write_header(kind, header | changes)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(bytes(content))


def tensors(folder: Path, kind: str) -> Path:
    (path,) = folder.glob(f"{kind}-*.safetensors")
    return path


DAMAGES: dict[str, tuple[Callable[[Path, str], Any], str]] = {
    "newer": (lambda f, kind: rewrite(f, kind, schema_version=2), "schema version 2, newer than"),
    "header cut": (lambda f, kind: cut(f / f"{kind}.json"), "is damaged"),
    "header changed": (
        lambda f, kind: (f / f"{kind}.json").write_text(
            (f / f"{kind}.json").read_text().replace('"step": ', '"step": 1')
        ),
        "not what was written",
    ),
    "not a header": (lambda f, kind: (f / f"{kind}.json").write_text("[1]"), "no schema version"),
    "tensors cut": (lambda f, kind: cut(tensors(f, kind)), "is damaged .* instead of"),
    "tensors changed": (lambda f, kind: flip(tensors(f, kind)), "not what was written"),
    "tensors gone": (lambda f, kind: tensors(f, kind).unlink(), "is damaged .*cannot read"),
    "too many heads": (
        lambda f, kind: rewrite(
            f, kind, topology={"heads_per_layer": [9] * 4, "channels_per_layer": [9] * 4}
        ),
        "topology that does not fit vit-digits",
    ),
    "other units": (
        lambda f, kind: rewrite(
            f, kind, topology={"heads_per_layer": [1] * 4, "channels_per_layer": [9] * 4}
        ),
        "does not fit barter on vit-digits",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", [LAST, SELECTED])
def test_what_cannot_be_used_is_refused_in_one_line(kind: str, damage: str, folder: Path) -> None:
    harm, reason = DAMAGES[damage]
    harm(folder, kind)
    read = {LAST: lambda: resumed(SPEC, folder), SELECTED: lambda: load_selected(folder)}[kind]
    with pytest.raises(UsageError, match=reason) as refused:
        read()
    assert isinstance(refused.value, CheckpointError)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)


def test_checkpoint_of_another_run_is_refused(folder: Path) -> None:
    other = spec_of("rigl")
    with pytest.raises(CheckpointError, match=f"of run {SPEC.run_id}, not of {other.run_id}"):
        resumed(other, folder)


def test_header_says_what_it_is_of(folder: Path) -> None:
    header = CheckpointFolder(folder).header(LAST, SPEC)
    assert header is not None
    known = {"schema_version": 1, "run_id": SPEC.run_id, "workload": "vit-digits", "step": STOP}
    assert known.items() <= header.items()
    assert header["method"] == "barter"
    assert sum(header["topology"]["heads_per_layer"]) == 16


class Killed(BaseException):
    """Ends a process wherever it is; nobody catches it."""


@pytest.mark.parametrize("survives", range(5))
def test_kill_between_any_two_writes_leaves_a_checkpoint(
    survives: int,
    whole: tuple[Training, Path],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second checkpoint of a run writes four files; it dies after so many of them."""
    monkeypatch.setattr(Workload, "eval_interval", lambda self, batch: EVERY)
    done: list[Path] = []
    write_aside = bench_files.write_aside

    def write(path: Path, writer: Any) -> None:
        if len(done) == survives:
            raise Killed
        write_aside(path, writer)
        done.append(path)

    def save(keeper: CheckpointKeeper, training: Training) -> None:
        keeper._selected = None  # as if the evaluation had selected anew: all files are written
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint_files, "write_aside", write)
            patch.setattr(bench_files, "write_aside", write)
            patch.setattr(CheckpointFolder, "clean", killed)
            original(keeper, training)

    def killed(*_: Header) -> None:
        raise Killed

    original = CheckpointKeeper.save
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointKeeper, "save", save)
        patch.setattr(CheckpointKeeper, "due", lambda self, step: step == STOP + EVERY)
        with pytest.raises(Killed):
            resumed(SPEC, folder)
    assert len(done) == survives
    header = CheckpointFolder(folder).header(LAST, SPEC)
    assert header is not None
    assert header["step"] == (STOP + EVERY if survives == 4 else STOP)
    assert load_selected(folder).step in (EVERY, STOP, STOP + EVERY)
    assert differences(outcome(resumed(SPEC, folder)), outcome(whole[0])) == []


def test_old_tensors_go(folder: Path) -> None:
    """One file of each kind, however many checkpoints there were."""
    assert sorted(path.suffix for path in folder.iterdir()) == [".json"] * 2 + [".safetensors"] * 2


def test_intervals() -> None:
    short, long = spec_of("dense"), spec_of("dense", steps=SHORT_STEPS + 1)
    evaluations = long.total_steps // Checkpointing().interval(long)
    assert evaluations >= 1
    assert not any(Checkpointing().due(short, step) for step in range(1, 17))
    assert Checkpointing().due(long, Checkpointing().interval(long))
    assert Checkpointing().due(long, long.total_steps)
    asked = Checkpointing(every=5)
    assert [s for s in range(1, 17) if asked.due(short, s)] == [5, 10, 15, 16]
    kept = Checkpointing(every=0, keep=True)
    assert [s for s in range(1, 17) if kept.due(short, s)] == [16]
    with pytest.raises(UsageError, match="--checkpoint-every -1"):
        Checkpointing(every=-1)
