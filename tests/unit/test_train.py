"""The training loop's decisions: which checkpoint is selected, when a run has diverged."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from bench import train
from bench.evaluation import Evaluation
from bench.measure.sampler import Sampler
from bench.progress import Progress
from bench.schema import RECOMPILE
from bench.session import Session, build_session
from bench.study_file import study_spec
from bench.train import DivergedError, Training
from bench.workloads.registry import WORKLOADS


def session(monkeypatch: pytest.MonkeyPatch, interval: int = 2, steps: int = 8) -> Session:
    """Eight steps of static on digits, evaluated at every second."""
    workload = replace(WORKLOADS["vit-digits"])
    monkeypatch.setattr(type(workload), "eval_interval", lambda self, batch: interval)
    given = {"methods": "static", "steps": steps, "batch_size": 4, "seeds": "0"}
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(spec, torch.device("cpu"))


def script(monkeypatch: pytest.MonkeyPatch, results: list[tuple[float, float]]) -> list[Any]:
    """Make evaluations return these (top-1, loss); the models that were evaluated are noted."""
    remaining: Iterator[tuple[float, float]] = iter(results)
    seen: list[Any] = []

    def evaluate(model: Any, data: Any, split: str) -> Evaluation:
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        seen.append((split, weights))
        top1, loss = next(remaining) if split == "validation" else (0.0, 0.0)
        return Evaluation(loss, top1, top1, 10)

    monkeypatch.setattr(train, "evaluate", evaluate)
    return seen


@pytest.mark.parametrize(
    ("results", "selected"),
    [
        ([(50, 1.0), (70, 2.0), (60, 0.5), (65, 0.1)], 4),
        ([(50, 1.0), (70, 2.0), (70, 1.5), (70, 1.5)], 6),
        ([(70, 1.0), (70, 1.0), (70, 1.0), (70, 1.0)], 2),
        ([(10, 9.0), (20, 8.0), (30, 7.0), (40, 6.0)], 8),
    ],
    ids=["highest top-1", "then lowest loss", "then earliest", "last"],
)
def test_checkpoint_selected_on_validation(
    monkeypatch: pytest.MonkeyPatch, results: list[tuple[float, float]], selected: int
) -> None:
    seen = script(monkeypatch, results)
    training = Training(session(monkeypatch), lambda progress: None)
    training.run()
    assert training.selected is not None
    assert training.selected[0] == selected
    # The test split is evaluated once, at the end, with the weights of the selected step.
    assert [split for split, _ in seen] == ["validation"] * 4 + ["test"]
    chosen, tested = seen[selected // 2 - 1][1], seen[4][1]
    assert all(torch.equal(chosen[name], tested[name]) for name in chosen)
    assert [row["step"] for row in training.evals] == [2, 4, 6, 8, selected]


def test_diverged_run_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = session(monkeypatch)
    original = broken.data.batch

    def batch(step: int) -> Any:
        images, targets = original(step)
        return (images * float("nan") if step == 4 else images), targets

    monkeypatch.setattr(broken.data, "batch", batch)
    with pytest.raises(DivergedError, match="loss is nan at step 4"):
        Training(broken, lambda progress: None).run()


def test_steps_that_compile_are_flagged_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [(50, 1.0)] * 4)
    of = session(monkeypatch)
    graphs, step = [0], type(of).train_step

    def compiling(session: Session, number: int, *rest: Any) -> Any:
        graphs[0] += {1: 3, 4: 2, 5: 1}.get(number, 0)
        return step(session, number, *rest)

    monkeypatch.setattr(type(of), "train_step", compiling)
    monkeypatch.setattr(train, "graphs_compiled", lambda: graphs[0])
    training = Training(of, lambda progress: None)
    training.run()
    flagged = [n for n, record in enumerate(training.steps, 1) if RECOMPILE in record.flags]
    assert flagged == [1, 4, 5]
    assert training.recompiles == 3, "the first step's graphs are no recompilation"


def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [(50, 1.0)] * 4)
    told: list[Progress] = []
    Training(session(monkeypatch), told.append).run()
    assert [progress.step for progress in told] == sorted(progress.step for progress in told)
    assert told[-1].step == told[-1].total_steps == 8
    assert told[-1].validation_top1_percent == 50


class Notes(Sampler):
    """A sampler that only notes when it is told what."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(None)
        self._notes = notes

    @contextmanager
    def timed(self) -> Iterator[None]:
        self._notes.append("timed")
        yield
        self._notes.append("end")

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._notes.append("pause")
        yield
        self._notes.append("resume")

    def mark(self) -> None:
        self._notes.append("mark")


def test_steps_are_watched_and_evaluations_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [(50, 1.0)] * 2)
    notes: list[str] = []
    of = session(monkeypatch, interval=4)
    step, evaluate = of.train_step, train.evaluate
    monkeypatch.setattr(type(of), "train_step", lambda _, *a: notes.append("step") or step(*a))
    monkeypatch.setattr(train, "evaluate", lambda *a: notes.append("evaluate") or evaluate(*a))
    training = Training(of, lambda progress: None, Notes(notes))
    training.run()
    segment = ["step", "mark"] * 4 + ["pause", "evaluate", "resume"]
    assert notes[: notes.index("end") + 1] == ["timed", *segment, *segment, "end"]
    assert "mark" not in notes[notes.index("end") :]
    assert training.disturbance_codes == []


class Saves:
    """A keeper that notes when it is called."""

    def __init__(self, notes: list[str], at: set[int]) -> None:
        self._notes, self._at = notes, at

    def due(self, step: int) -> bool:
        return step in self._at

    def save(self, training: Training) -> None:
        assert all(step.times for step in training.steps), "the clock was not read"
        self._notes.append(f"save {len(training.steps)}")


def test_checkpoints_are_written_while_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [(50, 1.0)])
    notes: list[str] = []
    of = session(monkeypatch, interval=4, steps=4)
    scripted = train.evaluate
    monkeypatch.setattr(train, "evaluate", lambda *a: notes.append("evaluate") or scripted(*a))
    Training(of, lambda progress: None, Notes(notes), Saves(notes, {2, 4})).run()
    told = [note for note in notes if note != "mark"]
    first = ["timed", "pause", "save 2", "resume", "pause", "evaluate", "save 4", "resume"]
    assert told[: len(first)] == first


@pytest.mark.parametrize("before", [0, 20])
def test_each_process_warms_up(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    of = session(monkeypatch, interval=60, steps=60)
    script(monkeypatch, [(50, 1.0)])
    training = Training(of, lambda progress: None)
    if before:
        first = Training(of, lambda progress: None, keeper=Stops(before))
        with pytest.raises(KeyboardInterrupt):
            first.run()
        training.load_state_dict(first.state_dict(), None)
    training.run()
    warm = [n for n, record in enumerate(training.steps, 1) if "warm_up" in record.flags]
    assert warm == sorted({*range(1, 6), *range(before + 1, before + 6)})
    assert training.steps_before == before


class Stops(Saves):
    """A keeper that ends the process."""

    def __init__(self, at: int) -> None:
        super().__init__([], {at})

    def save(self, training: Training) -> None:
        raise KeyboardInterrupt


def test_resumed_training_remembers_what_was_best(monkeypatch: pytest.MonkeyPatch) -> None:
    of = session(monkeypatch)
    script(monkeypatch, [(70, 1.0), (60, 1.0), (65, 1.0), (70, 2.0)])
    first = Training(of, lambda progress: None, keeper=Stops(4))
    with pytest.raises(KeyboardInterrupt):
        first.run()
    first.recompiles, first.disturbance_codes = 3, ["recompiled"]
    told: list[Progress] = []
    training = Training(of, told.append)
    training.load_state_dict(first.state_dict(), first.selected)
    training.run()
    assert training.selected is not None
    assert training.selected[0] == 2
    assert told[0].validation_top1_percent == 60
    assert (training.recompiles, training.disturbance_codes) == (3, ["recompiled"])
    assert [row["step"] for row in training.evals] == [2, 4, 6, 8, 2]
