"""Runs a study's runs, each in its own process, one after the other: nothing else may compute
while a step is timed. This process never loads torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.checkpoints.files import LAST, CheckpointFolder
from bench.checkpoints.policy import Checkpointing
from bench.errors import UsageError
from bench.processes import STOP_TIMEOUT_S, context, next_message, running, start_server
from bench.progress import Progress, Refusal
from bench.run_rows import Row, failed_run, run_identity
from bench.run_spec import RunSpec
from bench.schema import FAILED, OK
from bench.store import StudyStore

_Task = tuple[RunSpec, StudyStore, int | None, Checkpointing]
"""What a run's process is told: the fields of `bench.worker.Task`, which would load torch."""


class Display(Protocol):
    """Shows a person what is going on."""

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None: ...
    def run_started(self, spec: RunSpec, done_before: int) -> None: ...
    def run_progress(self, progress: Progress) -> None: ...
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
) -> Outcome:
    """Run what is not finished yet. Every run that was started leaves a row.

    Raises:
        UsageError: a run has a checkpoint that cannot be used.
        KeyboardInterrupt: the run that was going on has been stopped and has left nothing;
            those before it are recorded.
    """
    start_server(runs[0].device if runs else None)
    store.clean_partial()
    pending = pending_runs(runs, store)
    done_before = [steps_done(spec, store) for spec in pending]
    rows = []
    display.begin(pending, len(runs) - len(pending))
    try:
        for spec, done in zip(pending, done_before, strict=True):
            display.run_started(spec, done)
            row = _run_in_process((spec, store, device_index, checkpointing), display)
            rows.append(row)
            display.run_ended(spec, row)
    finally:
        display.end()
    return Outcome(tuple(rows), len(runs) - len(pending))


def _run_in_process(task: _Task, display: Display) -> Row:
    """One run; its row comes from its process, or says how that process died."""
    spec, store, *_ = task
    processes = context(spec.device)
    # Two ways, though nothing is sent to the worker: it sees there when this process is gone.
    receiver, sender = processes.Pipe(duplex=True)
    # No daemon: those may not start processes, and beside a GPU a run's batches are made in some.
    with running(processes.Process(target=_work, args=(task, sender))) as process:
        sender.close()
        while True:
            message = next_message(receiver, process)
            if message is None:
                process.join()
                return _record_death(spec, store, process.exitcode)
            if isinstance(message, Refusal):
                raise UsageError(message.reason)
            if isinstance(message, dict):
                process.join(STOP_TIMEOUT_S)
                return message
            display.run_progress(message)


def _record_death(spec: RunSpec, store: StudyStore, exit_code: int | None) -> Row:
    reason = f"its process died (exit code {exit_code})"
    if exit_code == -9:
        reason += "; killed, perhaps for lack of memory"
    row = failed_run(run_identity(spec, store.study), reason)
    store.write_run(spec.run_id, {"runs": [row]})
    return row


def _work(task: _Task, sender: Any) -> None:
    from bench.worker import Task, work  # loads torch: only ever in the run's own process

    work(Task(*task), sender)
