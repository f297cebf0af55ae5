"""Counting what makes the host wait for a device, on machines that have none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class CountReads(TorchDispatchMode):
    """Counts operators through which the host waits for values of a device."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in self.WAITING:
            self.seen.append(name)
        if name.startswith(("index", "_index_put")) and any(map(_is_mask, _indices(args))):
            self.seen.append("boolean indexing")
        return func(*args, **(kwargs or {}))


class CountOperators(TorchDispatchMode):
    """Counts all operators."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def _indices(args: Any) -> Any:
    return args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ()


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


@contextmanager
def counted_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Copies to the host, which on CPU are no operators: counted where they are asked for."""
    copies: list[str] = []
    original = torch.Tensor.cpu

    def cpu(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        copies.append("cpu")
        return original(self, *args, **kwargs)

    for name in ("tolist", "numpy", "item", "__bool__", "__float__", "__int__"):
        wrapped = getattr(torch.Tensor, name)

        def counting(self: torch.Tensor, *a: Any, _f: Any = wrapped, _n: str = name) -> Any:
            # The one copy of a transfer is `.cpu().numpy()`: the second half costs nothing.
            if _n != "numpy":
                copies.append(_n)
            return _f(self, *a)

        monkeypatch.setattr(torch.Tensor, name, counting)
    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    yield copies
    monkeypatch.undo()
