"""What the memory of a training step is for, at the moment when most of it is in use.

Every storage belongs to exactly one part, so the parts add up to the peak:

* parameters: the model's parameters and buffers, those before a topology update and after it;
* gradients: storages that are some parameter's `grad` once the backward pass is over and the method
  has read it;
* optimizer_state: tensors in the optimizer's state;
* method_state: what the method says it keeps (`state_tensors`: masks, scores);
* batch: the step's own images and targets;
* activations: storages that came into being in the forward pass and live when it ends: what
  autograd has saved for the backward pass, the loss, and what hooks keep;
* rest: all else, that is temporaries of any phase, gradients of activations among them.

Who is named twice belongs to the last named. A storage is judged by its whole life: a gradient
counts as one from its first moment, not from the end of the backward pass.
"""

from collections.abc import Iterable, Mapping

from torch import Tensor

from bench.measure.memory import MemoryMeter
from bench.schema import MEMORY_PARTS
from bench.session import Session

Parts = Mapping[str, int]
"""Part -> bytes; all of MEMORY_PARTS, in that order."""


class StepMemory:
    """The memory meter of one step, told at the marks of its clock which storages are what."""

    def __init__(self, session: Session, batch: Iterable[Tensor]) -> None:
        self.meter = MemoryMeter(session.device)
        self._session = session
        self._register_lasting()
        self.meter.register(batch, "batch")

    def mark(self, name: str) -> None:
        """A span of the step has ended."""
        if name == "forward":
            self.meter.claim_rest("activations")
        elif name == "backward":
            self._register_gradients()
        elif name in ("optimizer", "topology"):
            self._register_lasting()

    @property
    def peak_parts(self) -> Parts:
        """Bytes of each part at the peak; they add up to `meter.peak_allocated_bytes`."""
        at_peak = self.meter.at_peak
        return {part: at_peak.get(part, 0) for part in MEMORY_PARTS}

    def _register_gradients(self) -> None:
        gradients = (parameter.grad for parameter in self._session.model.parameters())
        self.meter.register((g for g in gradients if g is not None), "gradients")

    def _register_lasting(self) -> None:
        session = self._session
        self.meter.register(session.model.parameters(), "parameters")
        self.meter.register(session.model.buffers(), "parameters")
        states = session.optimizer.state.values()
        tensors = (v for state in states for v in state.values() if isinstance(v, Tensor))
        self.meter.register(tensors, "optimizer_state")
        self.meter.register(session.method.state_tensors(), "method_state")


def peak_columns(accounts: Iterable[Parts]) -> dict[str, int]:
    """The columns of a run: parts of the kind of step whose peak is the largest, the first of
    equals."""
    largest = max(accounts, key=lambda parts: sum(parts.values()))
    return {f"peak_{part}_bytes": size for part, size in largest.items()}
