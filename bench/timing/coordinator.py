"""Lets contenders compute one at a time, in randomised blocks, over several launches.

A launch starts every contender in a fresh process and asks them for rounds: in a round each
contender times one block of every segment, in an order drawn anew. The reference takes part twice
(A/A). The rounds of one launch share their processes, so a launch is the outer unit of chance.
This process never loads torch.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from bench.processes import STOP_TIMEOUT_S, context, next_message, running
from bench.schema import AGAIN, CONTENDER
from bench.spec import RunSpec
from bench.timing.messages import Answer, Failed, Ready, Request

PASSIVE_WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
"""Threads of a contender that has been stopped must not spin while another one is timed."""


class LaunchError(Exception):
    """A contender's process failed; the message says which and why."""


@dataclass(frozen=True)
class Entry:
    """One participant of every launch."""

    spec: RunSpec
    role: str
    final: bytes | None = None


@dataclass(frozen=True)
class Block:
    """What one participant timed in one round."""

    run_id: str
    role: str
    launch: int
    round: int
    position: int
    """Place in the round's order, from 0."""
    answer: Answer


@dataclass(frozen=True)
class BlockLength:
    """How much of each segment a block holds."""

    seconds: float = 0.2
    """Of every segment, as far as the limits allow."""
    fewest: int = 4
    most: int = 64
    windows: int = 2

    def repetitions(self, ready: Ready) -> dict[str, int]:
        return {
            part.name: self.windows
            if part.is_window
            else min(self.most, max(self.fewest, ceil(1000 * self.seconds / pace)))
            for part, pace in zip(ready.segments, ready.pace_ms.values(), strict=True)
        }


class _Worker:
    """A contender's process, from its start to its end."""

    def __init__(self, entry: Entry, connection: Connection, process: BaseProcess) -> None:
        self.entry, self._connection, self._process = entry, connection, process
        self.ready: Ready

    def wait_until_ready(self) -> None:
        self.ready = self.hear()

    def ask(self, request: Request) -> Answer:
        self._connection.send(request)
        return self.hear()

    def hear(self) -> Any:
        """The process's next message. Raises LaunchError if it failed or died."""
        message = next_message(self._connection, self._process)
        if message is None:
            self._process.join(STOP_TIMEOUT_S)
            message = Failed(f"its process died (exit code {self._process.exitcode})")
        if isinstance(message, Failed):
            raise LaunchError(f"{self.entry.spec.title}: {message.reason}")
        return message


def scouted(specs: Sequence[RunSpec], logs: Path, device_index: int | None) -> list[Entry]:
    """Entries of these contenders, with the state after their last update where shapes change; the
    first one, the reference, a second time at the end.

    Raises:
        LaunchError: a scout failed.
    """
    entries = []
    for spec in specs:
        with _process(_scout, Entry(spec, CONTENDER), logs, device_index) as worker:
            entries.append(Entry(spec, CONTENDER, worker.hear().final))
    return [*entries, Entry(specs[0], AGAIN, entries[0].final)]


def launch(
    entries: Sequence[Entry],
    number: int,
    rounds: int,
    length: BlockLength,
    logs: Path,
    device_index: int | None,
) -> Iterator[Block | list[Ready]]:
    """One launch: first what every contender says when it is ready, then blocks as they come.

    Raises:
        LaunchError: a contender failed; nothing of this launch may be used.
    """
    with ExitStack() as stack:
        workers = []
        for entry in entries:
            worker = stack.enter_context(_process(_contend, entry, logs, device_index))
            worker.wait_until_ready()  # one at a time: starting is computing
            workers.append(worker)
        yield [worker.ready for worker in workers]
        for round_ in range(rounds):
            order = np.random.default_rng([entries[0].spec.seed, number, round_])
            for position, index in enumerate(order.permutation(len(workers))):
                worker = workers[index]
                answer = worker.ask(Request(length.repetitions(worker.ready)))
                entry = worker.entry
                yield Block(entry.spec.run_id, entry.role, number, round_, position, answer)


@contextmanager
def _process(target: Any, entry: Entry, logs: Path, device_index: int | None) -> Iterator[_Worker]:
    processes = context(entry.spec.device)
    mine, theirs = processes.Pipe(duplex=True)
    log = logs / f"{entry.spec.run_id}-{entry.role}.log"
    arguments = (entry.spec, log, device_index, entry.final, theirs)
    with running(processes.Process(target=target, args=arguments, daemon=True)) as process:
        theirs.close()
        try:
            yield _Worker(entry, mine, process)
        finally:
            mine.close()


def wait_passively() -> None:
    """For all processes to be started from now on: idle threads sleep."""
    for name, value in PASSIVE_WAITING.items():
        os.environ.setdefault(name, value)


def _contend(*arguments: Any) -> None:
    _enter("work", *arguments)


def _scout(*arguments: Any) -> None:
    _enter("scout", *arguments)


def _enter(
    name: str, spec: RunSpec, log: Path, index: int | None, final: bytes | None, pipe: Connection
) -> None:
    from bench.timing import contender  # loads torch: only ever in a contender's own process

    getattr(contender, name)(contender.Assignment(spec, log, index, final), pipe)
