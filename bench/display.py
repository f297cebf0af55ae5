"""What a person sees while a study runs: live bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence

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
    """Two bars: all optimizer steps of the study, and those of the current run."""

    def __init__(self, console: Console) -> None:
        self._bars = make_bars(console, "steps", TextColumn("left"), TimeRemainingColumn())
        self._study: TaskID
        self._run: TaskID
        self._runs: Sequence[RunSpec] = ()
        self._ended = 0
        self._steps_before = 0

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None:
        self._runs = runs
        if finished:
            self._bars.console.print(f"{count(finished, 'finished run')} kept")
        total = sum(spec.total_steps for spec in runs)
        self._study = self._bars.add_task("study", total=total, state=f"run 0 of {len(runs)}")
        self._run = self._bars.add_task("", total=None, state="")
        self._bars.start()

    def run_started(self, spec: RunSpec, done_before: int) -> None:
        if done_before:
            self._bars.console.print(f"{spec.title}: {_goes_on(done_before)}", highlight=False)
        self._bars.reset(
            self._run, description=spec.title, total=spec.total_steps, state="starting"
        )
        state = f"run {self._ended + 1} of {len(self._runs)}"
        self._bars.update(self._study, state=state)

    def run_progress(self, progress: Progress) -> None:
        self._bars.update(self._run, completed=progress.step, state=_state(progress))
        self._bars.update(self._study, completed=self._steps_before + progress.step)

    def run_ended(self, spec: RunSpec, row: Row) -> None:
        self._ended += 1
        self._steps_before += spec.total_steps
        self._bars.update(self._run, completed=spec.total_steps)
        self._bars.update(self._study, completed=self._steps_before)
        self._bars.console.print(outcome_line(spec, row), highlight=False)

    def end(self) -> None:
        self._bars.stop()


class PlainDisplay:
    """A line when a run starts, every ten seconds, and when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._runs: Sequence[RunSpec] = ()
        self._number = 0
        self._said_at = self._began = 0.0
        self._steps_at_start = 0

    def _say(self, text: str) -> None:
        prefix = f"[{self._number}/{len(self._runs)}] " if self._number else ""
        self._console.print(prefix + text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None:
        self._runs = runs
        self._say(f"{count(len(runs), 'run')} to do, {count(finished, 'finished run')} kept")

    def run_started(self, spec: RunSpec, done_before: int) -> None:
        self._number += 1
        self._said_at = self._began = time.monotonic()
        self._steps_at_start = done_before
        goes_on = f", {_goes_on(done_before)}" if done_before else ""
        self._say(f"{spec.workload}: {spec.title}: {count(spec.total_steps, 'step')}{goes_on}")

    def run_progress(self, progress: Progress) -> None:
        if time.monotonic() - self._said_at >= _PLAIN_INTERVAL_S:
            self._said_at = time.monotonic()
            text = f"step {progress.step} of {progress.total_steps}, {_state(progress)}"
            self._say(f"{text}, {self._left(progress)} left of this run")

    def _left(self, progress: Progress) -> str:
        done = progress.step - self._steps_at_start
        per_step_s = (time.monotonic() - self._began) / max(1, done)
        return duration(per_step_s * (progress.total_steps - progress.step))

    def run_ended(self, spec: RunSpec, row: Row) -> None:
        self._say(outcome_line(spec, row))

    def end(self) -> None:
        pass
