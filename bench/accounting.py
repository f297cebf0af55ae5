"""Multiply-accumulates and peak memory of a run's steps, from an untimed repetition.

Counting slows a step down many times, so it never happens in a timed one. During training, the
first step of each kind (topology and flags) leaves a snapshot of the method's state. When all is
trained, timed and evaluated, each of these steps is repeated once under the counters.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bench.measure.macs import MacCount, MacCounter
from bench.measure.memory import MemoryMeter
from bench.session import Session
from methods.base import Topology

Kind = tuple[Topology, tuple[str, ...]]
"""What decides the cost of a step: topology before it, and the method's flags."""


@dataclass(frozen=True)
class StepAccount:
    """One step's costs, the same on every repetition."""

    macs: MacCount
    """Of the whole minibatch."""
    peak_allocated_bytes: int
    """Parameters, gradients, optimizer and method state, minibatch, activations, temporaries. The
    data set at rest is not in it, nor what a kernel allocates and frees inside one operator."""


class Accountant:
    """Remembers one step of every kind and accounts them afterwards."""

    def __init__(self) -> None:
        self._noted: dict[Kind, tuple[int, dict[str, Any]]] = {}

    def note(self, kind: Kind, step: int, session: Session) -> None:
        """Before a step: remember the first of its kind."""
        if kind not in self._noted:
            self._noted[kind] = (step, session.method.state_dict())

    def settle(self, session: Session) -> dict[Kind, StepAccount]:
        """Repeat one step of every kind. Consumes the session: weights are not restored."""
        accounts = {}
        for kind, (step, state) in self._noted.items():
            session.method.load_state_dict(state)
            accounts[kind] = account_step(session, step)
        return accounts


def account_step(session: Session, step: int) -> StepAccount:
    """Run one training step under the MAC counter and the memory meter."""
    batch = session.data.batch(step)
    counter, meter = MacCounter(), MemoryMeter()
    meter.register(session.model.parameters(), "parameters")
    meter.register(session.model.buffers(), "parameters")
    meter.register(_optimizer_tensors(session), "optimizer_state")
    meter.register(session.method.state_tensors(), "method_state")
    meter.register(batch, "batch")
    with meter, counter, _Phases(counter) as phases:
        session.train_step(step, batch, phases)
    return StepAccount(counter.count, meter.peak_allocated_bytes)


def _optimizer_tensors(session: Session) -> list[Tensor]:
    states = session.optimizer.state.values()
    return [value for state in states for value in state.values() if isinstance(value, Tensor)]


class _Phases(ExitStack):
    """A step's clock that tells the counter when the forward pass is over."""

    def __init__(self, counter: MacCounter) -> None:
        super().__init__()
        self._counter = counter

    def start_step(self) -> None:
        pass

    def mark(self, name: str) -> None:
        if name == "forward":
            self.enter_context(self._counter.phase("backward"))
