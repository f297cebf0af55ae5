"""Multiply-accumulates, peak memory and operators of a run's steps, from an untimed repetition.

Counting slows a step down many times, so it never happens in a timed one. During training, the
first step of each kind (see `Kind`) leaves a snapshot of the method's state. When all is
trained, timed and evaluated, each of these steps is repeated once under the counters.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from bench.measure.macs import MacCount, MacCounter
from bench.measure.operations import OperationCounter
from bench.memory_parts import Parts, StepMemory
from bench.schema import UPDATE
from bench.session import Session
from methods.base import SparseMethod, Topology

Kind = tuple[Topology, tuple[str, ...], int]
"""What decides the cost of a step: topology before it, the method's flags, and, where units are
transferred, the step itself (else 0): their number differs, and with it that of operators."""


def kind_of(step: int, topology: Topology, method: SparseMethod) -> Kind:
    """The kind of a step that is about to be done."""
    flags = method.flags(step)
    transfers = UPDATE in flags and bool(method.scheduled_transfers())
    return topology, flags, step if transfers else 0


def pack_kind(kind: Kind) -> tuple[Any, ...]:
    """A kind in plain tuples."""
    topology, flags, step = kind
    return topology.heads_per_layer, topology.channels_per_layer, flags, step


def unpack_kind(packed: tuple[Any, ...]) -> Kind:
    """What `pack_kind` was given."""
    heads, channels, flags, step = packed
    return Topology(heads, channels), flags, step


@dataclass(frozen=True)
class StepAccount:
    """One step's costs, the same on every repetition."""

    macs: MacCount
    """Of the whole minibatch."""
    peak_allocated_bytes: int
    """Parameters, gradients, optimizer and method state, minibatch, activations, temporaries. The
    data set at rest is not in it, nor what a kernel allocates and frees inside one operator."""
    operators: int
    """ATen operators dispatched."""
    host_synchronisations: int
    """Times that the host waits for the device."""
    peak_parts: Parts
    """What the peak is made of; adds up to it."""


class Accountant:
    """Remembers one step of every kind and accounts them afterwards."""

    def __init__(self) -> None:
        self._noted: dict[Kind, tuple[int, dict[str, Any]]] = {}

    def note(self, kind: Kind, step: int, session: Session) -> None:
        """Before a step: remember the first of its kind."""
        if kind not in self._noted:
            self._noted[kind] = (step, session.method.state_dict())

    def state_dict(self) -> list[Any]:
        """What was noted, for a checkpoint."""
        return [(pack_kind(kind), *noted) for kind, noted in self._noted.items()]

    def load_state_dict(self, noted: Sequence[Any]) -> None:
        """Go on from `state_dict()`."""
        self._noted = {unpack_kind(kind): (step, state) for kind, step, state in noted}

    def settle(self, session: Session) -> dict[Kind, StepAccount]:
        """Repeat one step of every kind. Consumes the session: weights are not restored."""
        accounts = {}
        for kind, (step, state) in self._noted.items():
            session.method.load_state_dict(state)
            accounts[kind] = account_step(session, step)
        return accounts


def account_step(session: Session, step: int) -> StepAccount:
    """Run one training step under all counters."""
    batch = session.batch(step)
    counter, memory = MacCounter(), StepMemory(session, batch)
    operations = OperationCounter(session.device, _host_tensors(session))
    # Innermost, it sees each operator as the step asks for it, before the others touch it.
    with memory.meter, counter, operations, _Phases(counter, memory) as phases:
        session.uncompiled().train_step(step, batch, phases)
    return StepAccount(
        counter.count,
        memory.meter.peak_allocated_bytes,
        operations.operators,
        operations.host_synchronisations,
        memory.peak_parts,
    )


def _host_tensors(session: Session) -> list[Tensor]:
    """Adam's step counters are on the host, whatever the device, unless its kernel reads them."""
    return [
        state["step"]
        for group in session.optimizer.param_groups
        if not (group.get("fused") or group.get("capturable"))
        for parameter in group["params"]
        if isinstance((state := session.optimizer.state.get(parameter, {})).get("step"), Tensor)
    ]


class _Phases(ExitStack):
    """A step's clock that tells the counters where the step is."""

    def __init__(self, counter: MacCounter, memory: StepMemory) -> None:
        super().__init__()
        self._counter, self._memory = counter, memory

    def start_step(self) -> None:
        pass

    def mark(self, name: str) -> None:
        self._memory.mark(name)
        if name == "forward":
            self.enter_context(self._counter.phase("backward"))
