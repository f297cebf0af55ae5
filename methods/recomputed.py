"""Activations that backward makes again in place of keeping them, as those see them who read them.

Whoever wants such an activation later must not hold the tensor: it asks for `kept`, and calls what
it gets. Who drops activations, and how they are made again, is the harness's business.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

Kept = Callable[[], Tensor]
"""Gives an activation, once, without its history."""

_ATTRIBUTE = "_made_again_by"


class Recomputed:
    """One activation of one forward pass, made again at the first call of those who asked for it
    and held until the last one's: however many they are, it is computed once."""

    def __init__(self, make: Callable[[], Tensor]) -> None:
        self._make = make
        self._readers = self._calls = 0
        self._value: Tensor | None = None

    def add_reader(self) -> "Recomputed":
        """To be called by each who will ask for the activation, before any does."""
        self._readers += 1
        return self

    def __call__(self) -> Tensor:
        value = self._make() if self._value is None else self._value
        self._calls += 1
        self._value = value if self._calls % self._readers else None
        return value


def mark(activation: Tensor, recomputed: Recomputed) -> None:
    """Say of a tensor how it is made again. The tensor object carries it, not its storage."""
    setattr(activation, _ATTRIBUTE, recomputed)


def recomputed_of(activation: Tensor) -> Recomputed | None:
    """How a tensor is made again; None of one that backward keeps."""
    found: Any = getattr(activation, _ATTRIBUTE, None)
    return found


def kept(activation: Tensor) -> Kept:
    """What gives the activation in backward, at no memory that backward would not need."""
    recomputed = recomputed_of(activation)
    if recomputed is not None:
        return recomputed.add_reader()
    detached = activation.detach()
    return lambda: detached
