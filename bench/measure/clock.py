"""One clock for every device: spans of a training step, read after the segment.

A step is `start_step()`, then `mark(name)` at the end of each span. Recording never waits for the
device; `read()` does, once, for all steps since the last read. A clock that waited inside a step
would measure a program that nobody runs: the host could no longer work ahead of the device.
"""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class StepTimes:
    """One step, in milliseconds: `step_ms` from its start to its last mark, `spans` by name.

    The spans add up to `step_ms` to rounding; a name marked twice in a step holds the sum.
    """

    step_ms: float
    spans: dict[str, float]


class Event(Protocol):
    """What a CUDA or MPS event created with timing enabled offers."""

    def record(self) -> None: ...
    def elapsed_time(self, end_event: Any, /) -> float: ...


class Clock(ABC):
    """Records stamps; subclasses say what a stamp is. Not for use from several threads."""

    def __init__(self) -> None:
        self._done: list[list[tuple[str, Any]]] = []
        self._open: list[tuple[str, Any]] | None = None

    @abstractmethod
    def _stamp(self) -> Any:
        """A new stamp of now, in the order of the device's own work."""

    @abstractmethod
    def _elapsed_ms(self, start: Any, end: Any) -> float: ...

    @abstractmethod
    def _settle(self) -> None:
        """Waits until every stamp given out so far can be read."""

    @abstractmethod
    def _release(self, stamp: Any) -> None:
        """Takes back a stamp that has been read."""

    def start_step(self) -> None:
        """Begins a step and ends the one before it.

        Raises RuntimeError if the step before has no mark, so nothing of it could be measured.
        """
        if self._open is not None:
            if len(self._open) == 1:
                raise RuntimeError("the step before has no mark: its time would be lost")
            self._done.append(self._open)
        self._open = [("start", self._stamp())]

    def mark(self, name: str) -> None:
        """Ends the span `name`, which began at the previous mark or at the start of the step.

        Raises RuntimeError outside a step.
        """
        if self._open is None:
            raise RuntimeError(f"mark({name!r}) outside a step: call start_step() first")
        self._open.append((name, self._stamp()))

    def read(self) -> list[StepTimes]:
        """All steps since the last read, in order. The only place that waits for the device.

        A step with at least one mark counts as finished; one just started stays open.
        """
        if self._open is not None and len(self._open) > 1:
            self._done.append(self._open)
            self._open = None
        if not self._done:
            return []
        self._settle()
        steps, self._done = self._done, []
        times = [self._times(step) for step in steps]
        for step in steps:
            for _, stamp in step:
                self._release(stamp)
        return times

    def _times(self, step: list[tuple[str, Any]]) -> StepTimes:
        spans: dict[str, float] = {}
        for (_, start), (name, end) in itertools.pairwise(step):
            spans[name] = spans.get(name, 0.0) + self._elapsed_ms(start, end)
        return StepTimes(self._elapsed_ms(step[0][1], step[-1][1]), spans)


class HostClock(Clock):
    """The host's monotonic clock, right where an operator has finished when it returns (CPU).

    With `synchronize` it serves a device without timing events: it then has to wait for the
    device at *every* stamp, and the step loses the overlap of host and device.
    """

    def __init__(
        self,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        synchronize: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._now_ns = now_ns
        self._synchronize = synchronize

    def _stamp(self) -> int:
        if self._synchronize is not None:
            self._synchronize()
        return self._now_ns()

    def _elapsed_ms(self, start: int, end: int) -> float:
        return (end - start) / 1e6

    def _settle(self) -> None:
        pass

    def _release(self, stamp: int) -> None:
        pass


class EventClock(Clock):
    """Device events, recorded in the current stream and read after one synchronisation.

    Args:
        event_factory: makes an event with timing enabled.
        synchronize: waits for all work of the device.
        record: records an event; by default its own `record()`.
    """

    def __init__(
        self,
        event_factory: Callable[[], Event],
        synchronize: Callable[[], None],
        record: Callable[[Any], None] = lambda event: event.record(),
    ) -> None:
        super().__init__()
        self._event_factory = event_factory
        self._synchronize = synchronize
        self._record = record
        # Creating an event costs microseconds and a driver call: reuse those that were read.
        self._pool: list[Event] = []

    def _stamp(self) -> Event:
        event = self._pool.pop() if self._pool else self._event_factory()
        self._record(event)
        return event

    def _elapsed_ms(self, start: Event, end: Event) -> float:
        return start.elapsed_time(end)

    def _settle(self) -> None:
        self._synchronize()

    def _release(self, stamp: Event) -> None:
        self._pool.append(stamp)


def make_clock(device: torch.device) -> Clock:
    """The clock for `device`: events on CUDA and MPS, the host's clock on CPU.

    An MPS build without events gets the host's clock with a synchronisation at every stamp.
    Raises ValueError for any other kind of device.
    """
    if device.type == "cpu":
        return HostClock()
    if device.type == "cuda":
        return EventClock(
            lambda: torch.cuda.Event(enable_timing=True),
            lambda: torch.cuda.synchronize(device),
            # The stream must be this device's: the current device may be another one.
            lambda event: event.record(torch.cuda.current_stream(device)),
        )
    if device.type == "mps":
        if hasattr(torch.mps, "event"):
            return EventClock(
                lambda: torch.mps.event.Event(enable_timing=True), torch.mps.synchronize
            )
        return HostClock(synchronize=torch.mps.synchronize)
    raise ValueError(f"no clock for device type {device.type!r}; known: cpu, cuda, mps")
