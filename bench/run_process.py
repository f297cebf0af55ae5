"""A run in its own process, seen from the one that watches it. No torch here."""

from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from typing import Any

from bench.checkpoints.policy import Checkpointing
from bench.errors import UsageError
from bench.processes import STOP_TIMEOUT_S, context, next_message, running
from bench.progress import Progress, Refusal
from bench.run_rows import Row, failed_run, run_identity
from bench.run_spec import RunSpec
from bench.store import StudyStore

_Task = tuple[RunSpec, StudyStore, int | None, Checkpointing]
"""What a run's process is told: the fields of `bench.worker.Task`, which would load torch."""


class RunProcess:
    """Started when made; whoever makes it closes it."""

    def __init__(
        self,
        spec: RunSpec,
        store: StudyStore,
        device_index: int | None,
        checkpointing: Checkpointing,
    ) -> None:
        self.spec, self._store = spec, store
        self._exits = ExitStack()
        processes = context(spec.device)
        # Two ways, though nothing is sent to the worker: it sees there when this process is gone.
        self._receiver, sender = processes.Pipe(duplex=True)
        task = (spec, store, device_index, checkpointing)
        # No daemon: those may not start processes, and beside a GPU a run's batches are made in
        # some.
        process = processes.Process(target=_work, args=(task, sender))
        self._process = self._exits.enter_context(running(process))
        sender.close()

    def hear(self) -> Progress | Row:
        """What it says next: how far it is, or at the end its row, which says how the process died
        if it did. Waits for that.

        Raises:
            UsageError: the run has a checkpoint that cannot be used.
        """
        message = next_message(self._receiver, self._process)
        if message is None:
            self._process.join()
            return self._record_death()
        if isinstance(message, Refusal):
            raise UsageError(message.reason)
        if isinstance(message, dict):
            self._process.join(STOP_TIMEOUT_S)
        return message

    def close(self) -> None:
        """Stop it if it still runs."""
        self._exits.close()
        self._receiver.close()

    def _record_death(self) -> Row:
        exit_code = self._process.exitcode
        reason = f"its process died (exit code {exit_code})"
        if exit_code == -9:
            reason += "; killed, perhaps for lack of memory"
        row = failed_run(run_identity(self.spec, self._store.study), reason)
        self._store.write_run(self.spec.run_id, {"runs": [row]})
        return row

    def _heard_by(self) -> list[Any]:
        return [self._receiver, self._process.sentinel]


def with_news(processes: Sequence[RunProcess]) -> list[RunProcess]:
    """Those of which `hear` does not have to wait; at least one."""
    ready = set(wait([each for process in processes for each in process._heard_by()]))
    return [process for process in processes if ready.intersection(process._heard_by())]


def _work(task: _Task, sender: Any) -> None:
    from bench.worker import Task, work  # loads torch: only ever in the run's own process

    work(Task(*task), sender)
