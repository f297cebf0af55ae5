"""A session whose tensors have shapes and no data: the one of `build_session`, copied.

The session itself is built for real, on the CPU, so that all that the host decides from values (the
entries of a mask, which units a model starts with) is exactly what a run has. From there on nothing
is computed.
"""

from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from bench.session import Session
from bench.workloads.data import Data


@dataclass(frozen=True)
class FakeData:
    """What a step asks of `bench.workloads.data.Data`: always the same minibatch."""

    minibatch: tuple[Tensor, Tensor]

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        return self.minibatch


def fake_session(session: Session, mode: FakeTensorMode) -> Session:
    """A copy of a session on fake tensors, whose steps run while `mode` is active.

    Args:
        session: just built; it is left as it is. Its model is not compiled in the copy.
    """
    parts = (session.model, session.optimizer, session.method, session.scaler)
    # One copy of all: they share parameters, hooks and each other.
    with FakeCopyMode(mode):
        model, optimizer, method, scaler, batch = deepcopy((*parts, session.batch(1)))
    return replace(
        session,
        model=model,
        optimizer=optimizer,
        method=method,
        data=cast(Data, FakeData(batch)),
        forward=model,
        scaler=scaler,
    )


class HostReads(ExitStack):
    """While active, whoever reads the values of a fake tensor gets zeros.

    What a step costs does not depend on them, except where they decide the shape of a tensor:
    there torch raises, and nothing can be predicted. Enter it after the fake mode.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        self.enter_context(_Numbers())
        self.enter_context(_Arrays())
        return self


class _Numbers(TorchDispatchMode):
    """`item`, `int`, `bool`, an `if`."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            return _zero(args[0].dtype)
        return func(*args, **(kwargs or {}))


class _Arrays(TorchFunctionMode):
    """`numpy`, which is no operator. (`tolist` of a fake tensor reads number by number.)"""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.numpy:
            return np.zeros(tuple(args[0].shape), str(args[0].dtype).removeprefix("torch."))
        return func(*args, **(kwargs or {}))


def _zero(dtype: torch.dtype) -> bool | int | float:
    if dtype == torch.bool:
        return False
    return 0.0 if dtype.is_floating_point else 0
