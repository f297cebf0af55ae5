"""One run in its own process: everything that needs torch happens behind `work`.

Importing this module imports torch and timm, so that a server of forked workers does it once.
"""

import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from bench import validity
from bench.checkpoints.files import CheckpointError, CheckpointFolder
from bench.checkpoints.keeper import CheckpointKeeper
from bench.checkpoints.policy import Checkpointing
from bench.checkpoints.restore import go_on
from bench.errors import UsageError
from bench.measure import environment, telemetry
from bench.measure.load import ForeignLoad
from bench.measure.sampler import Sampler
from bench.process_setup import begin, end_with_parent, prepare_device
from bench.progress import Progress, Refusal
from bench.records import environment_columns, finished_run
from bench.run_rows import failed_run, run_identity
from bench.run_spec import RunSpec
from bench.schema import OK, SKIPPED
from bench.session import build_session
from bench.store import StudyStore
from bench.train import DivergedError, Training
from methods.budget import BudgetError

_REPORT_INTERVAL_S = 0.2


@dataclass(frozen=True)
class Task:
    """A run, and where its records go."""

    spec: RunSpec
    store: StudyStore
    device_index: int | None
    checkpointing: Checkpointing

    @property
    def checkpoints(self) -> CheckpointFolder:
        """The run's own."""
        return CheckpointFolder(self.store.checkpoints_folder / self.spec.run_id)

    @property
    def log(self) -> Path:
        """What the run's process printed, and its traceback if it failed."""
        return self.store.folder / "logs" / f"{self.spec.run_id}.log"


def work(task: Task, connection: Connection) -> None:
    """Entry point of a run's process. Sends Progress, and at the end the run's row; a Refusal,
    and no row is left, if its checkpoint cannot be used."""
    begin(task.log)
    end_with_parent(connection)
    started = time.perf_counter()
    identity = run_identity(task.spec, task.store.study)
    try:
        tables = _run(task, connection, identity)
    except BudgetError as error:
        # The density gives this method no valid topology: no fault of the run's.
        tables = {"runs": [failed_run(identity, str(error), SKIPPED)]}
    except CheckpointError as error:
        connection.send(Refusal(str(error)))
        return
    except Exception as error:
        traceback.print_exc()
        tables = {"runs": [failed_run(identity, reason(error))]}
    tables["runs"][0]["wall_s"] = time.perf_counter() - started
    task.store.write_run(task.spec.run_id, tables)
    if tables["runs"][0]["status"] == OK and not task.checkpointing.keep:
        task.checkpoints.remove()
    connection.send(tables["runs"][0])


def _run(task: Task, connection: Connection, identity: dict) -> dict[str, list[dict]]:
    index = task.device_index
    device = prepare_device(task.spec, index)
    last = 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_INTERVAL_S:
            last = time.monotonic()
            connection.send(progress)

    readings = {"start": telemetry.sample(task.device_index)}
    identity |= environment_columns(environment.collect(device).to_dict())
    with Sampler(index, background=device.type == "cuda") as sampler:
        session = build_session(task.spec, device)
        go_on(session)
        keeper = CheckpointKeeper(task.checkpoints, session, task.checkpointing)
        training = Training(session, report, sampler, keeper)
        keeper.resume(training)
        load = ForeignLoad()
        training.run()
        foreign = load.cores()
    observed = sampler.take()
    readings["end"] = telemetry.sample(task.device_index)
    tables = finished_run(identity, training)
    row = tables["runs"][0]
    row["foreign_cpu_cores"] = foreign
    row["energy_j_per_step"] = validity.per_step(
        observed, len(training.steps) - training.steps_before
    )
    row["resumed"] = keeper.resumed
    validity.add_to(row, validity.machine_codes(device.type, observed, foreign))
    tables["telemetry"] = validity.telemetry_rows(readings, observed)
    return tables


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
