"""A checkpoint's state back into a session."""

from pathlib import Path
from typing import Any

import torch

from bench.checkpoints.files import LAST, CheckpointFolder, Header
from bench.checkpoints.model import misfit, state_of, topology_of
from bench.session import Session
from bench.snapshot import Snapshot


def restore(files: CheckpointFolder, header: Header, session: Session) -> dict[str, Any]:
    """Bring a session to where a `last` checkpoint was taken, random numbers included.

    Returns:
        The checkpoint's whole state: `session`, and `training` with the records.

    Raises:
        CheckpointError: it does not fit.
    """
    state = state_of(files, header)
    try:
        Snapshot(**state["session"]).restore(session)
    except torch.OutOfMemoryError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise misfit(files, header, error) from error
    if session.method.topology() != topology_of(header):
        raise misfit(files, header, ValueError("its topology is not that of its state"))
    return state


def go_on(session: Session) -> None:
    """Start a run that continues another one from that one's end: weights, topology, moments and
    step counters of the optimizer, method, random numbers (specification, section 7).

    Raises:
        CheckpointError: the checkpoint of that end is missing or does not fit.
    """
    start = session.spec.continued
    if start:
        files = CheckpointFolder(Path(start.folder))
        restore(files, files.require(LAST, start.run_id), session)
