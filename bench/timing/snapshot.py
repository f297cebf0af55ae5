"""The exact state of a session, to come back to: parameters, optimizer, method, random numbers."""

from copy import deepcopy
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
    device: torch.device

    @classmethod
    def take(cls, session: Session) -> "Snapshot":
        cuda = session.device.type == "cuda"
        return cls(
            {name: tensor.clone() for name, tensor in session.model.state_dict().items()},
            deepcopy(session.optimizer.state_dict()),
            deepcopy(session.method.state_dict()),
            session.scaler.state_dict(),
            torch.get_rng_state(),
            torch.cuda.get_rng_state(session.device) if cuda else None,
            session.device,
        )

    def device_bytes(self) -> int:
        """What the allocator of the session's device holds for it."""
        held = {
            tensor.untyped_storage()._cdata: allocated_bytes(tensor.untyped_storage().nbytes())
            for tensor in tensors_in((self.model, self.optimizer, self.method))
            if tensor.device.type == self.device.type
        }
        return sum(held.values())

    def restore(self, session: Session) -> None:
        """Topology first: it gives the tensors the shapes that the others are copied into."""
        session.optimizer.zero_grad(set_to_none=True)
        session.method.load_state_dict(deepcopy(self.method))
        session.model.load_state_dict(self.model)
        session.optimizer.load_state_dict(deepcopy(self.optimizer))
        session.scaler.load_state_dict(self.scaler)
        torch.set_rng_state(self.random)
        if self.device_random is not None:
            torch.cuda.set_rng_state(self.device_random, session.device)
