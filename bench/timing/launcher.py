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
from typing import Any, Protocol

import numpy as np

from bench.measure.load import available_bytes
from bench.measure.observed import Observed
from bench.measure.sampler import Sampler
from bench.processes import STOP_TIMEOUT_S, context, next_message, running
from bench.run_spec import RunSpec
from bench.schema import CONTENDER, LOOP
from bench.timing.messages import Answer, Failed, Ready, Request, Scouted

_PASSIVE_WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
"""Threads of a contender that has been stopped must not spin while another one is timed."""

_MEMORY_MARGIN = 1.5
"""Free memory that a further process needs, in sizes of the largest one."""


class LaunchError(Exception):
    """A contender's process failed.

    Args:
        status: of the run's row, failed or skipped.
    """

    def __init__(self, entry: "Entry", failure: Failed) -> None:
        super().__init__(f"{entry.spec.title}: {failure.reason}")
        self.entry, self.reason, self.status = entry, failure.reason, failure.status


class DoesNotFitError(Exception):
    """Not all contenders can live at once."""


@dataclass(frozen=True)
class Entry:
    """One participant of every launch."""

    spec: RunSpec
    """Of the bare loop: a dense run's, for its device and threads."""
    role: str
    final: bytes | None = None

    @property
    def is_bare(self) -> bool:
        return self.role in LOOP


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
    observed: Observed
    """Of the GPU, while the block was timed."""


@dataclass(frozen=True)
class BlockLength:
    """All segments in every block, as long as their share of the schedule says."""

    seconds: float = 0.15
    """Of single steps, shared out by how often the schedule has each kind."""
    fewest: int = 3
    most: int = 64
    """Steps of one kind."""
    windows: int = 1

    def repetitions(self, ready: Ready, round_: int) -> dict[str, int]:
        """Of every segment in every round."""
        return {
            part.name: self.windows
            if part.is_window
            else min(self.most, max(self.fewest, ceil(1000 * self.seconds * part.share / pace)))
            for part, pace in zip(ready.segments, ready.pace_ms.values(), strict=True)
        }


class Length(Protocol):
    """How much a contender computes in one block."""

    def repetitions(self, ready: Ready, round_: int) -> dict[str, int]:
        """By segment: so many steps, or whole update windows."""
        ...


class _Worker:
    """A contender's process, from its start to its end."""

    def __init__(self, entry: Entry, connection: Connection, process: BaseProcess) -> None:
        self.entry, self._connection, self._process = entry, connection, process
        self.ready: Ready

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it has been started"
        return self._process.pid

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
            raise LaunchError(self.entry, message)
        return message


@dataclass(frozen=True)
class Launcher:
    """How launches are made."""

    logs: Path
    device_index: int | None = None
    rounds: int = 8
    length: Length = BlockLength()
    nvml: Any = None
    """Stands in for the `pynvml` module (tests)."""

    def scout(self, spec: RunSpec) -> Scouted:
        """What is known of a contender before it is timed, found in a process of its own.

        Raises:
            LaunchError: it failed, or has no topology at its density.
        """
        with self._process("scout", Entry(spec, CONTENDER)) as worker:
            return worker.hear()

    def side_by_side(self, entries: Sequence[Entry], number: int) -> Iterator[Block]:
        """One launch, block by block, of processes that all live until its end.

        Raises:
            LaunchError: a contender failed; nothing of this launch may be used.
            DoesNotFitError: there is no memory for all of them at once.
        """
        with ExitStack() as stack:
            workers: list[_Worker] = []
            for entry in entries:
                _require_memory(workers)
                # One at a time: starting is computing.
                workers.append(stack.enter_context(self._ready(entry)))
            sampler = stack.enter_context(self._sampler(workers))
            for round_, position, index in self._order(entries, number):
                yield self._block(workers[index], sampler, number, round_, position)

    def apart(self, entries: Sequence[Entry], number: int) -> Iterator[Block]:
        """One launch in which every block has a fresh process of its own.

        Raises:
            LaunchError: a contender failed; nothing of this launch may be used.
        """
        for round_, position, index in self._order(entries, number):
            with self._ready(entries[index]) as worker, self._sampler([worker]) as sampler:
                yield self._block(worker, sampler, number, round_, position)

    def _order(self, entries: Sequence[Entry], number: int) -> Iterator[tuple[int, int, int]]:
        """Round, position and index of the entry: every round in an order of its own."""
        for round_ in range(self.rounds):
            order = np.random.default_rng([entries[0].spec.seed, number, round_])
            for position, index in enumerate(order.permutation(len(entries))):
                yield round_, position, int(index)

    def _block(
        self, worker: "_Worker", sampler: Sampler, number: int, round_: int, position: int
    ) -> Block:
        with sampler.timed():
            answer = worker.ask(Request(self.length.repetitions(worker.ready, round_)))
        entry, seen = worker.entry, sampler.take()
        return Block(entry.spec.run_id, entry.role, number, round_, position, answer, seen)

    def _sampler(self, workers: Sequence["_Worker"]) -> Sampler:
        """Of the GPU that all of these use: none of them is foreign to another. It reads in this
        process, which sleeps while one of them computes."""
        ours = [worker.pid for worker in workers]
        index = self.device_index
        return Sampler(index, background=index is not None, ours=ours, nvml=self.nvml)

    @contextmanager
    def _ready(self, entry: Entry) -> Iterator["_Worker"]:
        with self._process("bare" if entry.is_bare else "work", entry) as worker:
            worker.wait_until_ready()
            yield worker

    @contextmanager
    def _process(self, target: str, entry: Entry) -> Iterator["_Worker"]:
        processes = context(entry.spec.device)
        mine, theirs = processes.Pipe(duplex=True)
        log = self.logs / f"{entry.spec.run_id}-{entry.role}.log"
        arguments = (target, entry.spec, log, self.device_index, entry.final, theirs)
        with running(processes.Process(target=_enter, args=arguments, daemon=True)) as process:
            theirs.close()
            try:
                yield _Worker(entry, mine, process)
            finally:
                mine.close()


def _require_memory(workers: Sequence["_Worker"]) -> None:
    """Raise DoesNotFitError unless the host has room for one more such process."""
    largest = max((worker.ready.resident_bytes or 0 for worker in workers), default=0)
    free = available_bytes()
    if free is not None and free < _MEMORY_MARGIN * largest:
        raise DoesNotFitError(f"{len(workers)} contenders leave {free / 2**30:.1f} GiB")


def wait_passively() -> None:
    """For all processes to be started from now on: idle threads sleep."""
    for name, value in _PASSIVE_WAITING.items():
        os.environ.setdefault(name, value)


def _enter(
    name: str, spec: RunSpec, log: Path, index: int | None, final: bytes | None, pipe: Connection
) -> None:
    from bench.timing import contender  # loads torch: only ever in a contender's own process

    getattr(contender, name)(contender.Assignment(spec, log, index, final), pipe)
