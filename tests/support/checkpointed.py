"""A training that is stopped anywhere and gone on with, without processes and without waiting."""

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.checkpoints.files import CheckpointFolder
from bench.checkpoints.keeper import CheckpointKeeper
from bench.checkpoints.policy import Checkpointing
from bench.run_spec import RunSpec
from bench.session import Session, build_session
from bench.snapshot import Snapshot
from bench.study_file import study_spec
from bench.train import Training

STEPS, BATCH, DENSITY = 16, 4, 0.5


def spec_of(method: str, workload: str = "vit-digits", steps: int = STEPS) -> RunSpec:
    """A short run on the CPU."""
    given = {"methods": method, "workload": workload, "steps": steps, "batch_size": BATCH}
    given |= {"density": str(DENSITY), "seeds": "0"}
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return spec


class Copies(CheckpointKeeper):
    """A keeper that puts aside what a kill right after some of its checkpoints would leave."""

    def __init__(self, folder: Path, session: Session, at: Collection[int]) -> None:
        super().__init__(CheckpointFolder(folder), session, Checkpointing(every=1))
        self._at, self._folder = at, folder

    def due(self, step: int) -> bool:
        return step in self._at

    def save(self, training: Training) -> None:
        super().save(training)
        shutil.copytree(self._folder, copy_at(self._folder, len(training.steps)))


def copy_at(folder: Path, step: int) -> Path:
    """Where the checkpoints lie as they were after a step."""
    return folder.with_name(f"{folder.name}-at-{step}")


def uninterrupted(spec: RunSpec, folder: Path | None = None, at: Collection[int] = ()) -> Training:
    """A run to its end; with a folder, its checkpoints after these steps are put aside."""
    session = build_session(spec, torch.device("cpu"))
    keeper = Copies(folder, session, at) if folder else None
    training = Training(session, lambda progress: None, keeper=keeper)
    training.run()
    return training


def resumed(spec: RunSpec, folder: Path) -> Training:
    """A run to its end in a session of its own, from the last checkpoint of a folder."""
    session = build_session(spec, torch.device("cpu"))
    keeper = CheckpointKeeper(CheckpointFolder(folder), session, Checkpointing(every=0))
    training = Training(session, lambda progress: None, keeper=keeper)
    torch.rand(7)  # whatever a process has drawn before
    keeper.resume(training)
    training.run()
    return training


def outcome(training: Training) -> dict[str, Any]:
    """All that a run comes to, but for what its clock and its warm-up say."""
    selected = training.selected
    return {
        "state": vars(Snapshot.take(training.session)),
        "topology": training.session.method.topology(),
        "steps": [
            (step.kind, step.learning_rate, step.loss, step.active_parameters)
            for step in training.steps
        ],
        "evals": training.evals,
        "updates": training.updates,
        "active_parameters": training.active_parameters,
        "selected": selected and (selected[0], dict(selected[1].state_dict())),
        "stored_parameters": training.stored_parameters,
        "accounts": training.accounts,
    }


def differences(left: Any, right: Any, place: str = "") -> list[str]:
    """Where two nested states are not the same, bit for bit and type for type."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        same = left.dtype == right.dtype and torch.equal(left, right)
        return [] if same else [place]
    if type(left) is not type(right):
        return [f"{place}: {type(left).__name__} and {type(right).__name__}"]
    if isinstance(left, dict):
        if left.keys() != right.keys():
            return [f"{place}: keys"]
        return [d for key in left for d in differences(left[key], right[key], f"{place}.{key}")]
    if isinstance(left, list | tuple):
        if len(left) != len(right):
            return [f"{place}: length"]
        pairs = enumerate(zip(left, right, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, f"{place}.{i}")]
    return [] if left == right else [f"{place}: {left!r} and {right!r}"]
