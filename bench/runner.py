"""Runs a study's runs, each in its own process; by default one after the other: nothing else may
compute while a step is timed. This process never loads torch.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from bench.checkpoints.files import LAST, CheckpointFolder
from bench.checkpoints.policy import Checkpointing
from bench.processes import start_server
from bench.progress import Progress
from bench.run_process import RunProcess, with_news
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.schema import FAILED, OK
from bench.store import StudyStore


class Display(Protocol):
    """Shows a person what is going on."""

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None: ...
    def run_started(self, spec: RunSpec, done_before: int) -> None: ...
    def run_progress(self, spec: RunSpec, progress: Progress) -> None: ...
    def run_ended(self, spec: RunSpec, row: Row) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What became of the runs that were asked for."""

    rows: tuple[Row, ...]
    """Those run now."""
    already_finished: int

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs that broke; one that its density made impossible is skipped, not failed."""
        return tuple(row for row in self.rows if row["status"] == FAILED)


def pending_runs(runs: Sequence[RunSpec], store: StudyStore) -> list[RunSpec]:
    """Runs without a finished record; failed and skipped ones are tried again."""
    done = {run_id for run_id, row in store.finished().items() if row["status"] == OK}
    done -= set(store.incomplete())
    return [spec for spec in runs if spec.run_id not in done]


def steps_done(spec: RunSpec, store: StudyStore) -> int:
    """Where an interrupted run goes on: steps until its last checkpoint, else 0.

    Raises:
        UsageError: that checkpoint cannot be used.
    """
    header = CheckpointFolder(store.checkpoints_folder / spec.run_id).header(LAST, spec)
    return header["step"] if header else 0


def run_study(
    runs: Sequence[RunSpec],
    store: StudyStore,
    device_index: int | None,
    display: Display,
    checkpointing: Checkpointing,
    jobs: int = 1,
) -> Outcome:
    """Run what is not finished yet. Every run that was started leaves a row.

    Args:
        jobs: runs at once. Results do not depend on it, times do: the records of runs that
            disturbed each other say `foreign_cpu_load` or `foreign_gpu_process`.

    Raises:
        UsageError: a run has a checkpoint that cannot be used.
        KeyboardInterrupt: the runs that were going on have been stopped and have left nothing;
            those before them are recorded.
    """
    start_server(runs[0].device if runs else None)
    store.clean_partial()
    pending = pending_runs(runs, store)
    waiting = [(spec, steps_done(spec, store)) for spec in pending]
    rows: list[Row] = []
    display.begin(pending, len(runs) - len(pending))
    with closing(_Places()) as places:
        try:
            while waiting or places.taken:
                while waiting and len(places.taken) < jobs:
                    spec, done = waiting.pop(0)
                    display.run_started(spec, done)
                    places.taken.append(RunProcess(spec, store, device_index, checkpointing))
                rows += places.listen(display)
        finally:
            display.end()
    return Outcome(tuple(rows), len(runs) - len(pending))


class _Places:
    """The runs that are under way."""

    def __init__(self) -> None:
        self.taken: list[RunProcess] = []

    def listen(self, display: Display) -> list[Row]:
        """Pass on one message of each that has one; rows of those that have ended."""
        rows = []
        for process in with_news(self.taken):
            message = process.hear()
            if isinstance(message, Progress):
                display.run_progress(process.spec, message)
                continue
            self.taken.remove(process)
            process.close()
            rows.append(message)
            display.run_ended(process.spec, message)
        return rows

    def close(self) -> None:
        for process in self.taken:
            process.close()
