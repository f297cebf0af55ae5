"""The exact state of a session, to come back to: parameters, optimizer, method, random numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.measure.memory import allocated_bytes
from bench.measure.placement import tensors_in
from bench.session import Session


@dataclass(frozen=True)
class Snapshot:
    """Data need no place in it: a batch depends on the seed and the step alone."""

    model: dict[str, Any]
    optimizer: dict[str, Any]
    method: dict[str, Any]
    scaler: dict[str, Any]
    random: Tensor
    device_random: Tensor | None

    @classmethod
    def take(cls, session: Session, keep_on: str | None = None) -> "Snapshot":
        """A copy of the session's state.

        Args:
            keep_on: device of all copied tensors, e.g. `cpu`; None: each where it is.
        """
        cuda = session.device.type == "cuda"
        return cls(
            copied(session.model.state_dict(), keep_on),
            copied(session.optimizer.state_dict(), keep_on),
            copied(session.method.state_dict(), keep_on),
            session.scaler.state_dict(),
            torch.get_rng_state(),
            torch.cuda.get_rng_state(session.device) if cuda else None,
        )

    def device_bytes(self, device: torch.device) -> int:
        """What the allocator of a device holds for it."""
        held = {
            tensor.untyped_storage()._cdata: allocated_bytes(tensor.untyped_storage().nbytes())
            for tensor in tensors_in((self.model, self.optimizer, self.method))
            if tensor.device.type == device.type
        }
        return sum(held.values())

    def restore(self, session: Session) -> None:
        """Topology first: it gives the tensors the shapes that the others are copied into."""
        session.pieces.forget()
        session.optimizer.zero_grad(set_to_none=True)
        session.method.load_state_dict(copied(self.method))
        session.model.load_state_dict(self.model)
        # The optimizer itself knows which of its tensors belong on the device.
        session.optimizer.load_state_dict(copied(self.optimizer))
        session.scaler.load_state_dict(self.scaler)
        torch.set_rng_state(self.random)
        if self.device_random is not None:
            torch.cuda.set_rng_state(self.device_random, session.device)


def copied(state: Any, device: torch.device | str | None = None) -> Any:
    """Nested containers with a copy of every tensor.

    Args:
        device: where the copies lie; None: where the tensors are.
    """
    if isinstance(state, Tensor):
        return state.detach().to(device or state.device, copy=True)
    if isinstance(state, Mapping):
        return {key: copied(value, device) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value, device) for value in state)
    return state
