"""A recorder for the CPU that replays as a CUDA graph does: the same operators on the same memory,
and nothing of the Python around them."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

T = TypeVar("T")
_WAITS = (torch.ops.aten._local_scalar_dense.default,)


class Tape(TorchDispatchMode):
    """The operators of one piece, as they are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.result: Any = None
        self._calls: list[tuple[Any, tuple, dict, Any]] = []
        self._is_fresh = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _WAITS:
            raise RuntimeError(f"{func} waits for the device: it cannot be recorded")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._calls.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        """A graph computes nothing when it is recorded. This does: the first replay is left out."""
        if self._is_fresh:
            self._is_fresh = False
            return
        with torch.no_grad():
            for func, args, kwargs, recorded in self._calls:
                aliased = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
                again = func(*args, **kwargs)
                for old, new in zip(_tensors(recorded), _tensors(again), strict=True):
                    if old.untyped_storage()._cdata not in aliased:
                        old.copy_(new)


class Tapes:
    """The backend; `events` has what was asked of it, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def call(self, work: Callable[[], T]) -> T:
        self.events.append("call")
        return work()

    def record(self, work: Callable[[], Any]) -> Tape:
        self.events.append("record")
        tape = Tape()
        with tape:
            tape.result = work()
        return tape

    def release(self, recordings: list[Tape]) -> None:
        self.events.append(f"release {len(recordings)}")


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor))
