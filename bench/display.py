"""What a person sees while a study runs: live bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich import progress as bars
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bench.progress import Progress
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.runner import Display
from bench.schema import OK
from bench.wording import count, duration, flops

_PLAIN_INTERVAL_S = 10.0


def make_display(console: Console) -> Display:
    """Bars where they can be drawn."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def make_bars(
    console: Console, unit: str, *more: ProgressColumn, refresh_itself: bool = True
) -> bars.Progress:
    """Bars whose tasks say their state in words, in a field of that name.

    Args:
        unit: what is counted; may name fields of the task.
        more: columns before the state.
        refresh_itself: draw in a thread; else whoever changes something draws it.
    """
    return bars.Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        *more,
        TextColumn("{task.fields[state]}"),
        console=console,
        auto_refresh=refresh_itself,
        refresh_per_second=4,  # drawing must not take time from a timed step
    )


def outcome_line(spec: RunSpec, row: Row) -> str:
    """One finished run in one line."""
    if row["status"] != OK:
        return f"{spec.title}: {row['status']}: {row['reason']}"
    parts = [f"{spec.title}: ok in {row['wall_s']:.1f} s"]
    if row["test_top1_percent"] is not None:
        parts.append(f"test top-1 {row['test_top1_percent']:.1f} %")
    if row["is_dynamic"]:
        parts.append(count(row["executed_updates"], "topology update"))
    return ", ".join(parts)


def _state(progress: Progress) -> str:
    accuracy = progress.validation_top1_percent
    shown = "" if accuracy is None else f", validation {accuracy:.1f} %"
    return f"loss {progress.loss:.3f}{shown}, {flops(progress.training_flops)}"


def _goes_on(done_before: int) -> str:
    return f"was interrupted, goes on from its checkpoint after step {done_before:,}"


class LiveDisplay:
    """A bar for all optimizer steps of the study, and one for each run that is under way."""

    def __init__(self, console: Console) -> None:
        self._bars = make_bars(console, "steps", TextColumn("left"), TimeRemainingColumn())
        self._study: TaskID
        self._runs: dict[str, TaskID] = {}
        self._to_do = self._started = self._steps_ended = 0
        self._steps: dict[str, int] = {}

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None:
        self._to_do = len(runs)
        if finished:
            self._bars.console.print(f"{count(finished, 'finished run')} kept")
        total = sum(spec.total_steps for spec in runs)
        self._study = self._bars.add_task("study", total=total, state=f"run 0 of {self._to_do}")
        self._bars.start()

    def run_started(self, spec: RunSpec, done_before: int) -> None:
        if done_before:
            self._bars.console.print(f"{spec.title}: {_goes_on(done_before)}", highlight=False)
        self._started += 1
        self._runs[spec.run_id] = self._bars.add_task(
            spec.title, total=spec.total_steps, state="starting"
        )
        self._bars.update(self._study, state=f"run {self._started} of {self._to_do}")

    def run_progress(self, spec: RunSpec, progress: Progress) -> None:
        task = self._runs[spec.run_id]
        self._bars.update(task, completed=progress.step, state=_state(progress))
        self._steps[spec.run_id] = progress.step
        self._show_study()

    def run_ended(self, spec: RunSpec, row: Row) -> None:
        self._bars.remove_task(self._runs.pop(spec.run_id))
        self._steps.pop(spec.run_id, None)
        self._steps_ended += spec.total_steps
        self._show_study()
        self._bars.console.print(outcome_line(spec, row), highlight=False)

    def end(self) -> None:
        self._bars.stop()

    def _show_study(self) -> None:
        completed = self._steps_ended + sum(self._steps.values())
        self._bars.update(self._study, completed=completed)


@dataclass
class _Under:
    """A run that is under way."""

    number: int
    steps_before: int
    began_at: float
    said_at: float

    def left(self, progress: Progress) -> str:
        per_step_s = (time.monotonic() - self.began_at) / max(1, progress.step - self.steps_before)
        return duration(per_step_s * (progress.total_steps - progress.step))


class PlainDisplay:
    """A line when a run starts, every ten seconds, and when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._to_do = 0
        self._started = 0
        self._runs: dict[str, _Under] = {}

    def _say(self, text: str, number: int = 0) -> None:
        prefix = f"[{number}/{self._to_do}] " if number else ""
        self._console.print(prefix + text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None:
        self._to_do = len(runs)
        self._say(f"{count(len(runs), 'run')} to do, {count(finished, 'finished run')} kept")

    def run_started(self, spec: RunSpec, done_before: int) -> None:
        self._started += 1
        now = time.monotonic()
        self._runs[spec.run_id] = _Under(self._started, done_before, began_at=now, said_at=now)
        goes_on = f", {_goes_on(done_before)}" if done_before else ""
        text = f"{spec.workload}: {spec.title}: {count(spec.total_steps, 'step')}{goes_on}"
        self._say(text, self._started)

    def run_progress(self, spec: RunSpec, progress: Progress) -> None:
        run = self._runs[spec.run_id]
        if time.monotonic() - run.said_at >= _PLAIN_INTERVAL_S:
            run.said_at = time.monotonic()
            text = f"step {progress.step} of {progress.total_steps}, {_state(progress)}"
            self._say(f"{text}, {run.left(progress)} left of this run", run.number)

    def run_ended(self, spec: RunSpec, row: Row) -> None:
        self._say(outcome_line(spec, row), self._runs.pop(spec.run_id).number)

    def end(self) -> None:
        pass
