"""One contender of a launch in a process of its own, which sleeps until it is asked to compute.

Importing this module imports torch. Several such processes live side by side; the coordinator lets
one of them compute at a time.
"""

import gc
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from bench.measure.disturbances import Disturbances
from bench.measure.load import ForeignLoad, resident_bytes
from bench.process_setup import begin, end_with_parent, prepare_device
from bench.run_spec import RunSpec
from bench.schema import SKIPPED
from bench.session import build_session
from bench.timing.bare_loop import BareLoop
from bench.timing.messages import Answer, Failed, Ready, Request
from bench.timing.replay import BareReplayer, Replayer, Timed
from bench.timing.scout import scouted, unpack
from bench.timing.segments import Segment
from bench.worker import reason
from methods.budget import BudgetError


@dataclass(frozen=True)
class Assignment:
    """What a process is to become."""

    spec: RunSpec
    log: Path
    device_index: int | None = None
    final: bytes | None = None
    """The method's state after the last update, from a scout; None where shapes stay."""


def work(assignment: Assignment, connection: Connection) -> None:
    """Entry point: builds, warms up, says Ready, then answers requests until the pipe closes."""
    begin(assignment.log)
    try:
        device = prepare_device(assignment.spec, assignment.device_index)
        session = build_session(assignment.spec, device)
        replayer = Replayer(session, unpack(assignment.final))
    except Exception as error:
        traceback.print_exc()
        connection.send(Failed(reason(error)))
    else:
        _answer(replayer, connection, session.device)


def _answer(replayer: Timed, connection: Connection, device: torch.device) -> None:
    try:
        # Also the warm-up: every kind of step once, windows too.
        pace = {part.name: _pace_ms(replayer, part) for part in replayer.segments}
        gc.collect()
        gc.freeze()
        connection.send(Ready(replayer.segments, pace, resident_bytes()))
        serve(replayer, connection, Disturbances(device))
    except (EOFError, OSError):
        pass  # the coordinator has gone, or is done with this process
    except Exception as error:
        traceback.print_exc()
        connection.send(Failed(reason(error)))


def serve(replayer: Timed, connection: Connection, disturbances: Disturbances) -> None:
    """Answer requests; blocks in the kernel between them."""
    parts = {part.name: part for part in replayer.segments}
    while True:
        request: Request = connection.recv()
        disturbances.start()
        load = ForeignLoad()
        times: dict[str, list[float]] = {}
        unscored: dict[str, int] = {}
        for name, repetitions in request.repetitions.items():
            before = replayer.steps_taken
            times[name] = replayer.time(parts[name], repetitions)
            unscored[name] = replayer.steps_taken - before - len(times[name])
        connection.send(Answer(times, unscored, load.cores(), disturbances.codes()))


def scout(assignment: Assignment, connection: Connection) -> None:
    """Entry point: sends what is known of the contender before it is timed."""
    begin(assignment.log)
    end_with_parent(connection)
    try:
        device = prepare_device(assignment.spec, assignment.device_index)
        connection.send(scouted(assignment.spec, device))
    except BudgetError as error:
        connection.send(Failed(str(error), SKIPPED))
    except Exception as error:
        traceback.print_exc()
        connection.send(Failed(reason(error)))


def bare(assignment: Assignment, connection: Connection) -> None:
    """Entry point: as `work`, for the frozen loop that the gate measures everything against."""
    begin(assignment.log)
    device = prepare_device(assignment.spec, assignment.device_index)
    _answer(BareReplayer(BareLoop(device)), connection, device)


def _pace_ms(replayer: Timed, part: Segment) -> float:
    """About how long one step (or whole window) takes, so that blocks can be given a length."""
    times = replayer.time(part, 1 if part.is_window else 3)
    return sum(times) if part.is_window else min(times)
