"""Reads a GPU's state beside what is timed, in a thread that no timed step waits for. No torch.

The thread shares the interpreter with the process that it lives in: a process that waits while
others are timed disturbs them least, one that trains on a GPU has its lock for microseconds ten
times a second. On a CPU any thread would disturb, so none is started there.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from bench.measure import nvml as nvml_module
from bench.measure.observed import Observed
from bench.measure.telemetry import ENERGY, Probe, Reading

INTERVAL_S = 0.1
_PATIENCE_S = 2.0
"""How long the end of a run waits for a reading that hangs in the driver."""


class Sampler:
    """Watches one GPU during the regions that are timed::

        with Sampler(index, background=True) as sampler:
            with sampler.timed():
                train()
            sampler.take().codes()

    Energy is the difference of the card's own counter over each region, read just outside of it.
    No method raises for what the machine lacks or loses.

    Args:
        device: as for `telemetry.Probe`; None (a CPU) gives readings that are `absent`.
        background: read in a thread, every `interval_s`, while a region is open. Without it,
            readings are taken by `mark` and at the end of a region.
        ours: numbers of the processes that are meant to compute on the GPU in a timed region (this
            one's if not given): all others are foreign.
        nvml: stands in for the `pynvml` module (tests).
    """

    def __init__(
        self,
        device: int | str | None,
        *,
        background: bool = False,
        ours: Collection[int] | None = None,
        interval_s: float = INTERVAL_S,
        nvml: Any = None,
    ) -> None:
        self._device, self._nvml = device, nvml
        self._ours = (os.getpid(),) if ours is None else tuple(ours)
        self._interval_s = interval_s
        self._thread = Thread(target=self._watch, daemon=True) if background else None
        self._probe = Probe(None, None)
        self._library = ExitStack()
        self._lock, self._open, self._ended = Lock(), Event(), Event()
        self._observed = Observed()
        self._region, self._readings = 0, 0
        self._energy_before: Reading | None = None

    def __enter__(self) -> Self:
        library = self._library.enter_context(nvml_module.session(self._nvml))
        self._probe = Probe(library, self._device, self._ours, computing=True)
        if self._thread:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._open.set()
        if self._thread:
            self._thread.join(_PATIENCE_S)
            if self._thread.is_alive():
                return  # it hangs in the driver, and so would closing the library
        self._library.close()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """A region that is timed, or a part of one."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within a timed region: something that is not timed."""
        self._end()
        try:
            yield
        finally:
            self._begin()

    def mark(self) -> None:
        """A place where no step is under way: a reading, unless a thread takes them or no region
        is open."""
        if self._thread is None and self._open.is_set():
            self._read(self._region)

    def take(self) -> Observed:
        """What was seen since the last call."""
        with self._lock:
            observed, self._observed = self._observed, Observed()
        return observed

    def _begin(self) -> None:
        with self._lock:
            self._region += 1
            self._readings = 0
        self._energy_before = self._energy()
        self._open.set()

    def _end(self) -> None:
        self._open.clear()
        if not self._readings:  # a region shorter than the interval: its end must do
            self._read(self._region)
        spent = _difference(self._energy_before, self._energy())
        with self._lock:
            self._region += 1  # a reading that is still under way comes too late
            self._observed += Observed.of([spent])

    def _watch(self) -> None:
        while self._open.wait() and not self._ended.wait(self._interval_s):
            if self._open.is_set():
                self._read(self._region)

    def _read(self, region: int) -> None:
        seen = Observed.of(self._probe.read())
        with self._lock:
            if region == self._region:
                self._observed += seen
                self._readings += 1

    def _energy(self) -> Reading:
        (energy,) = self._probe.read((ENERGY,))
        return energy


def _difference(before: Reading | None, after: Reading) -> Reading:
    """Energy of a region; a counter that was lost, or began anew, tells nothing."""
    if before is None or before.value is None or after.value is None:
        return after if after.value is None else Reading(after.field, after.unit, None, "absent")
    spent = after.value - before.value
    if spent < 0:
        return Reading(after.field, after.unit, None, "unsupported")
    return Reading(after.field, after.unit, spent, "measured")
