"""What every process that computes a run does first: output, signals, threads, precision.

Importing this module imports torch.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import torch

from bench.run_spec import RunSpec


def begin(log: Path) -> None:
    """Print into `log`, and leave it to the command line what Ctrl-C means: it ends processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def end_with_parent(connection: Connection) -> None:
    """End this process when the one that watches it is gone: a run that nobody waits for would
    disturb the timing of the next. The thread sleeps in the kernel until then."""

    def wait() -> None:
        try:
            connection.recv()
        except (EOFError, OSError):
            os._exit(1)

    Thread(target=wait, daemon=True).start()


def prepare_device(spec: RunSpec, index: int | None) -> torch.device:
    """The run's device, with the threads and the precision that the run asks for.

    Args:
        index: of the CUDA device; None elsewhere.
    """
    if spec.execution.threads is not None:
        torch.set_num_threads(spec.execution.threads)
    precision = "tf32" if spec.tf32 else "ieee"
    torch.backends.cuda.matmul.fp32_precision = precision
    torch.backends.cudnn.conv.fp32_precision = precision  # pyright: ignore
    return torch.device(spec.device if index is None else f"{spec.device}:{index}")
