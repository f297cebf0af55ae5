"""One run in its own process: everything that needs torch happens behind `work`.

Importing this module imports torch and timm, so that a server of forked workers does it once.
"""

import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import torch

from bench import validity
from bench.errors import UsageError
from bench.measure import environment, telemetry
from bench.measure.load import ForeignLoad
from bench.measure.sampler import Sampler
from bench.progress import Progress
from bench.records import environment_columns, finished_run
from bench.run_rows import failed_run, run_identity
from bench.schema import SKIPPED
from bench.session import build_session
from bench.spec import RunSpec
from bench.store import StudyStore
from bench.train import DivergedError, Training
from methods.budget import BudgetError

_REPORT_INTERVAL_S = 0.2


@dataclass(frozen=True)
class Task:
    """A run, and where its records go."""

    spec: RunSpec
    store: StudyStore
    device_index: int | None = None

    @property
    def log(self) -> Path:
        """What the run's process printed, and its traceback if it failed."""
        return self.store.folder / "logs" / f"{self.spec.run_id}.log"


def work(task: Task, connection: Connection) -> None:
    """Entry point of a run's process. Sends Progress, and at the end the run's row."""
    # The command line decides what Ctrl-C means, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    redirect_output(task.log)
    Thread(target=die_with_parent, args=(connection,), daemon=True).start()
    started = time.perf_counter()
    identity = run_identity(task.spec, task.store.study)
    try:
        tables = _run(task, connection, identity)
    except BudgetError as error:
        # The density gives this method no valid topology: no fault of the run's.
        tables = {"runs": [failed_run(identity, str(error), SKIPPED)]}
    except Exception as error:
        traceback.print_exc()
        tables = {"runs": [failed_run(identity, reason(error))]}
    tables["runs"][0]["wall_s"] = time.perf_counter() - started
    task.store.write_run(task.spec.run_id, tables)
    connection.send(tables["runs"][0])


def _run(task: Task, connection: Connection, identity: dict) -> dict[str, list[dict]]:
    index = task.device_index
    device = torch.device(task.spec.device if index is None else f"{task.spec.device}:{index}")
    if task.spec.threads is not None:
        torch.set_num_threads(task.spec.threads)
    set_precision(task.spec.recipe.tf32)
    last = 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_INTERVAL_S:
            last = time.monotonic()
            connection.send(progress)

    readings = {"start": telemetry.sample(task.device_index)}
    identity |= environment_columns(environment.collect(device).to_dict())
    with Sampler(index, background=device.type == "cuda") as sampler:
        training = Training(build_session(task.spec, device), report, sampler)
        load = ForeignLoad()
        training.run()
        foreign = load.cores()
    observed = sampler.take()
    readings["end"] = telemetry.sample(task.device_index)
    tables = finished_run(identity, training)
    row = tables["runs"][0]
    row["foreign_cpu_cores"] = foreign
    row["energy_j_per_step"] = validity.per_step(observed, len(training.steps))
    validity.add_to(row, validity.machine_codes(device.type, observed, foreign))
    tables["telemetry"] = validity.telemetry_rows(readings, observed)
    return tables


def die_with_parent(connection: Connection) -> None:
    """End this process when the one that watches it is gone: a run that nobody waits for would
    disturb the timing of the next. The thread sleeps in the kernel until then."""
    try:
        connection.recv()
    except (EOFError, OSError):
        os._exit(1)


def set_precision(tf32: bool) -> None:
    """FP32, with TF32 products only where the recipe allows them."""
    precision = "tf32" if tf32 else "ieee"
    torch.backends.cuda.matmul.fp32_precision = precision
    torch.backends.cudnn.conv.fp32_precision = precision  # pyright: ignore


def reason(error: Exception) -> str:
    """One line for the record."""
    text = " ".join(str(error).split())
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: {text[:200]}"
    if isinstance(error, DivergedError):
        return f"diverged: {text}"
    if isinstance(error, UsageError):
        return text
    return f"{type(error).__name__}: {text[:200]}"


def redirect_output(log: Path) -> None:
    """Send what this process prints to its log, not into the live display."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
