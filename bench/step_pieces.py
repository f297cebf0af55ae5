"""How the pieces of a training step (forward, backward, optimizer) are carried out: called, or
recorded once and replayed.

A replayed piece costs the host one launch. Its operators read and write the very tensors that they
had when they were recorded, so a recording lasts as long as these do: one *topology epoch*, from
one replacement of parameters to the next. In each epoch a piece is called the first time (what
libraries and the optimizer set up at a first call must not be recorded), recorded the second time
and replayed from then on. No step is done twice for it.
"""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")
Batch = tuple[Tensor, Tensor]


class Pieces:
    """The pieces as they are: called."""

    captures = 0
    """Epochs of which a recording was made."""
    is_recording = False
    """Whether pieces are ever recorded."""

    def start(self, key: Hashable, batch: Batch) -> Batch:
        """Begin a step; returns the images and targets that its pieces are to read.

        Args:
            key: what decides, beside the parameters, which operators the step launches.
        """
        return batch

    def run(self, name: str, work: Callable[[], T]) -> T:
        """Do one piece; its result is valid until the same piece is done again."""
        return work()

    def lasting(self, loss: Tensor) -> Tensor:
        """The loss, to be read whenever."""
        return loss.detach()

    @property
    def owns_gradients(self) -> bool:
        """Whether gradients lie where a recording expects them and have to stay."""
        return False

    def forget(self) -> None:
        """The parameters, or the optimizer's state, are other tensors now."""


CALLED = Pieces()
"""They keep nothing: all sessions share them."""


class Recording(Protocol):
    """Of one piece."""

    result: Any
    """What the piece returned: tensors that every replay fills anew."""

    def replay(self) -> None: ...


class Backend(Protocol):
    """Who records. `bench.cuda_graphs` has the real one."""

    def call(self, work: Callable[[], T]) -> T:
        """Do a piece that may be recorded the next time."""
        ...

    def record(self, work: Callable[[], Any]) -> Recording:
        """A recording of a piece, none of which is executed. Those between two calls of `release`
        share their memory: they are replayed in the order in which they were made."""
        ...

    def release(self, recordings: list[Any]) -> None:
        """Give back the memory of recordings that nobody will replay."""
        ...


class RecordedPieces(Pieces):
    """Pieces that are recorded in the second step of each epoch.

    Args:
        clear_gradients: lets go of all gradients, which lie in a recording's memory.
    """

    is_recording = True

    def __init__(self, backend: Backend, clear_gradients: Callable[[], None]) -> None:
        self.captures = 0
        self._backend, self._clear_gradients = backend, clear_gradients
        self._recordings: dict[str, Recording] = {}
        self._called: set[str] = set()
        self._key: Hashable = None
        self._batch: Batch | None = None

    def start(self, key: Hashable, batch: Batch) -> Batch:
        images, targets = batch
        key = (key, images.shape, images.dtype, targets.shape, targets.dtype)
        if self._key != key:
            self.forget()
            self._key, self._batch = key, (images.clone(), targets.clone())
        assert self._batch is not None
        for buffer, given in zip(self._batch, batch, strict=True):
            buffer.copy_(given, non_blocking=True)
        return self._batch

    def run(self, name: str, work: Callable[[], T]) -> T:
        if name not in self._called:
            self._called.add(name)
            return self._backend.call(work)
        if name not in self._recordings:
            self.captures += not self._recordings
            self._recordings[name] = self._backend.record(work)
        self._recordings[name].replay()
        return self._recordings[name].result

    def lasting(self, loss: Tensor) -> Tensor:
        return loss.detach().clone()

    @property
    def owns_gradients(self) -> bool:
        return "backward" in self._recordings

    def forget(self) -> None:
        recordings = list(self._recordings.values())
        self._recordings.clear()
        self._called.clear()
        self._key = self._batch = None
        if recordings:
            self._clear_gradients()
            self._backend.release(recordings)
