"""Batches made ahead by processes of their own, so that a GPU's steps need not wait for them."""

from collections.abc import Callable, Iterator
from itertools import count

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

Batch = tuple[Tensor, Tensor]
_AHEAD = 4
"""Batches that each process keeps ready: an epoch's first step, or a slow batch, is no gap."""


class _ByStep(Dataset[Batch]):
    """Batches by their step; what DataLoader hands to its processes."""

    def __init__(self, make: Callable[[int], Batch]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> Batch:
        return self._make(step)


class StepLoader:
    """Batches by step (from 1), made ahead as long as steps come in order.

    A step out of order - a repetition, a glance at another one - is made here at once, and what
    was made ahead stays.

    Args:
        make: a pure function of the step, fit for pickling: who calls it must not matter.
        processes: how many make batches ahead; 0 for none.
        pin: whether batches come in page-locked memory, from which a GPU copies without waiting.
    """

    def __init__(self, make: Callable[[int], Batch], processes: int, pin: bool) -> None:
        self._make = make
        self._processes = processes
        self._pin = pin
        self._ahead: Iterator[Batch] | None = None
        self._ahead_step = 0
        """The step that `_ahead` gives next."""
        self._last = 0

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        in_order, self._last = step == self._last + 1, step
        if self._processes == 0:
            return self._make(step)
        if step != self._ahead_step:
            if not in_order:
                return self._make(step)
            self._start(step)
        assert self._ahead is not None
        self._ahead_step += 1
        return next(self._ahead)

    def _start(self, step: int) -> None:
        self._ahead, self._ahead_step = None, step  # the old processes end first
        self._ahead = iter(
            DataLoader(
                _ByStep(self._make),
                batch_size=None,
                sampler=count(step),  # pyright: ignore[reportArgumentType]
                num_workers=self._processes,
                prefetch_factor=_AHEAD,
                pin_memory=self._pin,
                # Its own: otherwise it would draw from the global one, which the model uses.
                generator=torch.Generator(),
            )
        )
