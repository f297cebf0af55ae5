"""One contender in one process: replays the segments of its schedule under the clock."""

from itertools import cycle
from typing import Any, Protocol

import torch

from bench.measure.clock import make_clock
from bench.session import Session
from bench.snapshot import Snapshot
from bench.timing.bare_loop import BareLoop
from bench.timing.segments import Segment, segments

REWARM_STEPS = 2
"""Unscored steps before scored ones: another contender has used the caches meanwhile."""
MethodState = dict[str, Any]


class Timed(Protocol):
    """What can be asked for the times of its segments."""

    segments: tuple[Segment, ...]

    @property
    def steps_taken(self) -> int:
        """Steps done so far, scored or not."""
        ...

    def time(self, part: Segment, repetitions: int) -> list[float]: ...


class Replayer:
    """Comes back to the same state before everything that it times.

    The session must be fresh. Its full schedule decides the segments; its steps are taken where
    they stand in that schedule, whatever lies between.

    Args:
        final: the method's state after the last update, where its tensors change their shapes.
    """

    def __init__(self, session: Session, final: MethodState | None = None) -> None:
        self.session = session
        self._clock = make_clock(session.device)
        self.steps_taken = 0
        self.segments = segments(
            session.method.flags, session.spec.total_steps, widths_change=final is not None
        )
        # State that an optimizer makes at its first step would otherwise be made in a timed one.
        self._step(1)
        self._clock.read()
        self._initial = Snapshot.take(session)
        self._final = self._at(final) if final is not None else self._initial
        self._turns = {part.name: cycle(part.starts) for part in self.segments}

    def time(self, part: Segment, repetitions: int) -> list[float]:
        """Milliseconds of so many steps, or of every step of so many update windows."""
        if part.is_window:
            return [ms for _ in range(repetitions) for ms in self._window(part)]
        start = next(self._turns[part.name])
        (self._final if part.final_widths else self._initial).restore(self.session)
        self._seek(start)
        for number in range(REWARM_STEPS + repetitions):
            step = start + number % part.length
            if number and step == start:
                self._seek(start)
            self._step(step)
        return [times.step_ms for times in self._clock.read()][REWARM_STEPS:]

    def prepare(self, part: Segment) -> int:
        """Make the session ready for a step of this segment (its update), and return that step."""
        (self._final if part.final_widths else self._initial).restore(self.session)
        self._seek(part.starts[0])
        return part.starts[0]

    def record_before(self, part: Segment, step: int) -> None:
        """Take steps until that step finds its pieces recorded: the ones before an update, which
        must not be done twice, else itself."""
        for before in (2, 1):
            taken = max(1, step - before) if part.is_window else step
            self._seek(taken)
            self._step(taken)
        self._seek(step)
        self._clock.read()

    @property
    def saved_bytes(self) -> int:
        """What the saved states hold of the device's memory: no step needs it."""
        states = {id(state): state for state in (self._initial, self._final)}
        return sum(state.device_bytes(self.session.device) for state in states.values())

    def _window(self, part: Segment) -> list[float]:
        update = next(self._turns[part.name])
        first = max(1, update - REWARM_STEPS)
        self._initial.restore(self.session)
        self._seek(first)
        for step in range(first, update + part.length):
            self._step(step)
        return [times.step_ms for times in self._clock.read()][update - first :]

    def _seek(self, step: int) -> None:
        """Make the method ready for a step, as if those before it had been taken."""
        self.session.method.after_step(step - 1)

    def _step(self, step: int) -> None:
        self.steps_taken += 1
        self.session.train_step(step, self.session.data.batch(step), self._clock)

    def _at(self, state: MethodState) -> Snapshot:
        """The session in another state of its method. Values do not matter for time, but whole
        tensors of zeros might."""
        self.session.method.load_state_dict(state)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for parameter in self.session.model.parameters():
                if not parameter.any():
                    parameter.normal_(std=0.02)
        self._step(1)
        self._clock.read()
        return Snapshot.take(self.session)


class BareReplayer:
    """The bare loop, asked like any contender."""

    segments = (Segment("ordinary", (1,), 1, 1.0),)

    def __init__(self, loop: BareLoop) -> None:
        self._loop = loop

    @property
    def steps_taken(self) -> int:
        return self._loop.steps

    def time(self, part: Segment, repetitions: int) -> list[float]:
        return self._loop.time_ms(REWARM_STEPS + repetitions)[REWARM_STEPS:]
