"""Starting worker processes, hearing from them, and never leaving one behind. No torch here."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

STOP_TIMEOUT_S = 5.0

_KEPT_HEAP = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""The C library (glibc) otherwise gives memory back to the kernel after a step and faults it in
again during the next one, or not, as chance has laid out the heap: the same step differs by up to
5 % from one process to another."""


def next_message(receiver: Connection, process: BaseProcess) -> Any:
    """What the process sends next; None if it died without."""
    wait([receiver, process.sentinel])
    try:
        return receiver.recv() if receiver.poll() else None
    except EOFError:
        return None


@contextmanager
def running(process: BaseProcess) -> Iterator[BaseProcess]:
    """A started process that does not outlive its use."""
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.terminate()
            process.join(STOP_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()


def context(device: str) -> Any:
    """On CPU workers are forked from a server that has imported everything once; a GPU driver does
    not survive a fork, so there each is a fresh interpreter."""
    if device == "cpu" and "forkserver" in multiprocessing.get_all_start_methods():
        chosen = multiprocessing.get_context("forkserver")
        chosen.set_forkserver_preload(["bench.worker", "bench.workloads.digits", "sklearn.metrics"])
        return chosen
    return multiprocessing.get_context("spawn")


def start_server(device: str | None) -> None:
    """Before the first worker. Sets what holds for all of them: a heap that is kept.

    The fork server starts deaf to Ctrl-C, which a terminal sends to every process: this one
    decides what it means, and the server must not die of it half-way through an import.

    Children inherit what is blocked. Here a Ctrl-C of this moment only waits.
    """
    for name, value in _KEPT_HEAP.items():
        os.environ.setdefault(name, value)
    if device and isinstance(context(device), ForkServerContext):
        resource_tracker.ensure_running()  # otherwise the server starts it, and unblocks
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
