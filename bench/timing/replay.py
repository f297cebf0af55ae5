"""One contender in one process: replays the segments of its schedule under the clock."""

from itertools import cycle
from typing import Any

import torch

from bench.measure.clock import make_clock
from bench.session import Session
from bench.timing.segments import UPDATE, Segment, segments
from bench.timing.snapshot import Snapshot

REWARM_STEPS = 2
"""Unscored steps before scored ones: another contender has used the caches meanwhile."""
_SCOUT_IMAGES = 4
"""Images per step of the walk to the final topology, which is never timed."""

MethodState = dict[str, Any]


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
        self.segments = segments(
            session.method.flags, session.spec.total_steps, widths_change=final is not None
        )
        # State that an optimizer makes at its first step would otherwise be made in a timed one.
        self._step(1)
        self._clock.read()
        self._initial = Snapshot.take(session)
        self._final = self._at(final) if final is not None else self._initial
        self._turns = {part.name: cycle(part.starts) for part in self.segments}

    def warm_up(self) -> None:
        """Every segment once, unscored."""
        for part in self.segments:
            self.time(part, 1 if part.is_window else REWARM_STEPS)

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


def final_state(session: Session) -> MethodState | None:
    """Walk through all updates of the schedule, a step each, and return the method's state there;
    None where tensors keep their shapes. Consumes the session."""
    method = session.method
    if not method.is_dynamic or method.realisation != "compact":
        return None
    clock = make_clock(session.device)
    for step in range(1, session.spec.total_steps + 1):
        if UPDATE in method.flags(step):
            method.after_step(step - 1)
            images, targets = session.data.batch(step)
            session.train_step(step, (images[:_SCOUT_IMAGES], targets[:_SCOUT_IMAGES]), clock)
            clock.read()
    return method.state_dict()
