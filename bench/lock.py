"""One study is run by one process: two would do the same work and time each other."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import UsageError

try:
    import fcntl
except ImportError:  # not POSIX: no lock
    fcntl = None


def holder(folder: Path) -> str | None:
    """The process that runs a study now; None if none does, or nobody can tell."""
    path = folder / ".lock"
    if fcntl is None or not path.exists():
        return None
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return file.read().strip() or "?"
    return None


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the study's folder. The lock goes with the process, however that ends.

    Raises:
        UsageError: another process holds it; the message names it.
    """
    if fcntl is None:
        yield
        return
    with (folder / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise UsageError(
                f"study {folder.name!r} is being run by process {file.read().strip() or '?'}:"
                " wait for it, or choose another name with --study"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
