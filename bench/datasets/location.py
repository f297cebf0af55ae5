"""Where data sets lie, and what a run needs to know of one. No torch."""

import os
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UsageError

VARIABLE = "BENCH_DATA_DIR"
DEFAULT_FOLDER = Path("data")
LOADERS_BESIDE_A_GPU = 2


@dataclass(frozen=True)
class Place:
    """What the command line says of this machine's data, and no study file can."""

    folder: Path | None = None
    """Of the data sets; None is the default one."""
    loaders: int | None = None
    """Processes that make batches; None is the default number."""


@dataclass(frozen=True)
class Stored:
    """A decoded data set as a run's process finds it. No part of the run's identity."""

    folder: str
    """Of the decoded copy."""
    loaders: int
    """Processes that make batches ahead; 0: the run's own makes them, between its steps."""


def data_folder(given: Path | None) -> Path:
    """The folder of all data sets: as given, else by the environment, else `data` here."""
    return given or Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)


def loaders(given: int | None, device: str) -> int:
    """How many processes make batches. On a CPU none: they would take it from the timed steps.

    Raises:
        UsageError: a negative number, or more than anything could use.
    """
    if given is None:
        return 0 if device == "cpu" else LOADERS_BESIDE_A_GPU
    if not 0 <= given <= 64:
        raise UsageError(f"--data-loaders {given} is outside 0 to 64")
    return given
