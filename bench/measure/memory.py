"""Memory of a program's tensors, counted storage by storage, on real and on fake tensors alike.

The meter watches the dispatcher: whatever an operator returns is a storage that begins to live, and
a weak reference says when it dies. So the peak can be known on a CPU, which keeps no such book,
and, with fake tensors, without the memory at all. What an operator allocates and frees *within* one
call (a workspace) is not visible here; the allocator's own counters of a GPU include it.
"""

import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_iter

REST = "rest"
"""Cause of a storage created while the meter is active and not said to be anything else."""

_BLOCK_BYTES = 512


def allocated_bytes(size_bytes: int) -> int:
    """What CUDA's caching allocator sets aside for a request: whole blocks of 512 bytes."""
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _dense_parts(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors that hold the data of a tensor: itself, or its parts if sparse or wrapped."""
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from _dense_parts(getattr(tensor, name))
    elif tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    else:
        yield tensor


@dataclass
class _Life:
    """A storage of constant size, alive from tick `born` until tick `died`."""

    size_bytes: int
    cause: str
    born: int
    died: int | None = None


@dataclass
class _Storage:
    life: _Life
    reference: Any  # weak; its callback ends the life


class MemoryMeter(TorchDispatchMode):
    """Counts the bytes of storages that exist or come into being while it is active.

    Tell it before the step what exists already, and after it what the new storages were::

        meter = MemoryMeter()
        meter.register(model.parameters(), "parameters")
        meter.register([images, labels], "batch")
        with meter:
            model(images).sum().backward()
        meter.register((p.grad for p in model.parameters() if p.grad is not None), "gradients")
        meter.peak_allocated_bytes, meter.at_peak

    Sizes are those of the storages (a view costs nothing, a shared one counts once), each rounded
    up to 512 bytes. While active, Python's automatic collection of reference cycles is paused, so
    the figures do not depend on when it happens to run; cycles count until they are collected.

    Args:
        device: count only tensors of this device (all of its kind without an index); None counts
            all, wherever they are.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        super().__init__()
        self._device = device
        self._alive: dict[int, _Storage] = {}
        self._lives: list[_Life] = []
        self._strangers: dict[int, Any] = {}
        self._tick = 0
        self._peak_tick = 0
        self._collecting = False
        self.current_allocated_bytes = 0
        self.peak_allocated_bytes = 0
        self.unregistered_bytes = 0
        """Bytes of storages that operators read although nobody registered them. Not part of the
        other figures; anything but zero means that the baseline was incomplete."""

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by cause at the (first) peak; they add up to `peak_allocated_bytes`."""
        causes: Counter[str] = Counter()
        for life in self._lives:
            if life.born <= self._peak_tick and (life.died is None or life.died > self._peak_tick):
                causes[life.cause] += life.size_bytes
        return dict(causes)

    def register(self, tensors: Iterable[Tensor], cause: str) -> None:
        """Says what storages are for (`parameters`, `gradients`, `batch`, ...).

        A storage not known yet counts from now on; of several causes the last word holds.
        """
        for tensor in tensors:
            for storage in self._storages(tensor):
                self._strangers.pop(storage._cdata, None)
                self._track(storage, cause)
                self._alive[storage._cdata].life.cause = cause

    def claim_rest(self, cause: str) -> None:
        """Says what all storages are for that live now and of which nothing has been said."""
        for storage in self._alive.values():
            if storage.life.cause == REST:
                storage.life.cause = cause

    def __enter__(self) -> "MemoryMeter":
        self._collecting = gc.isenabled()
        gc.collect()
        gc.disable()
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        if self._collecting:
            gc.enable()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # torch.tensor() makes its tensor out of sight and then lifts it: only the result counts.
        inputs = () if func is torch.ops.aten.lift_fresh.default else (args, kwargs)
        for storage in self._all_storages(inputs):
            self._see(storage)
        result = func(*args, **kwargs)
        for storage in self._all_storages((inputs, result)):
            if storage._cdata not in self._strangers:
                self._track(storage, REST)
        return result

    def _all_storages(self, tree: Any) -> Iterator[torch.UntypedStorage]:
        for leaf in tree_iter(tree):
            if isinstance(leaf, Tensor):
                yield from self._storages(leaf)

    def _storages(self, tensor: Tensor) -> Iterator[torch.UntypedStorage]:
        for part in _dense_parts(tensor):
            if self._counts(part.device):
                yield part.untyped_storage()

    def _counts(self, device: torch.device) -> bool:
        """Whether tensors of `device` count. A fake tensor says the device it stands for; a real
        `meta` tensor has no memory anywhere."""
        if self._device is None or device.type != self._device.type:
            return self._device is None and device.type != "meta"
        return self._device.index in (None, device.index)

    def _see(self, storage: torch.UntypedStorage) -> None:
        """Notes a storage that is read but was neither registered nor created here."""
        key = storage._cdata
        if key not in self._alive and key not in self._strangers:
            self._strangers[key] = weakref.ref(storage, lambda _: self._strangers.pop(key, None))
            self.unregistered_bytes += allocated_bytes(storage.nbytes())

    def _track(self, storage: torch.UntypedStorage, cause: str) -> None:
        """Counts a storage from now on, or its new size if it was resized."""
        key, size = storage._cdata, allocated_bytes(storage.nbytes())
        known = self._alive.get(key)
        if known is None:
            reference = weakref.ref(storage, lambda _: self._end(self._alive.pop(key).life))
            self._alive[key] = _Storage(self._begin(size, cause), reference)
        elif known.life.size_bytes != size:
            self._end(known.life)
            known.life = self._begin(size, known.life.cause)

    def _begin(self, size_bytes: int, cause: str) -> _Life:
        self._tick += 1
        life = _Life(size_bytes, cause, born=self._tick)
        self._lives.append(life)
        self.current_allocated_bytes += size_bytes
        if self.current_allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.current_allocated_bytes
            self._peak_tick = self._tick
        return life

    def _end(self, life: _Life) -> None:
        self._tick += 1
        life.died = self._tick
        self.current_allocated_bytes -= life.size_bytes


class AllocatorPeak:
    """Peaks of CUDA's caching allocator since the last reset.

    Neither call waits for the device: the allocator hands out memory on the host, in the order in
    which the host asks, so its counters are complete once the host has queued the work.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Starts a new interval: both peaks fall to what is allocated and reserved now."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def read(self) -> tuple[int, int]:
        """(peak allocated bytes, peak reserved bytes) since the last reset."""
        return (
            torch.cuda.max_memory_allocated(self._device),
            torch.cuda.max_memory_reserved(self._device),
        )
