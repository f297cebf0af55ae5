"""Files that are whole or absent: written aside, forced to disk, renamed."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.errors import UsageError

_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)\.tmp")


def write_json_atomically(path: Path, obj: Any) -> None:
    """Write strict JSON beside the path and rename it. Raises UsageError if it cannot."""
    write_text_atomically(path, json.dumps(obj, indent=2, allow_nan=False) + "\n")


def write_text_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text beside the path and rename it. Raises UsageError if it cannot."""
    write_aside(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UsageError if it is missing or malformed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(cannot("read", path, error)) from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON: {one_line(error)}") from error


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Call `write(temporary path)`, force it to disk, then rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            _sync(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _sync(path.parent)
    except OSError as error:
        raise UsageError(cannot("write", path, error)) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clean_partial(folder: Path) -> None:
    """Remove what writers that died left in a folder; a living process keeps its own."""
    for path in folder.glob(".*.tmp"):
        match = _TEMPORARY.fullmatch(path.name)
        if match and not _other_process_lives(int(match["pid"])):
            path.unlink(missing_ok=True)


def _other_process_lives(pid: int) -> bool:
    # Our own id belongs to a dead predecessor here: in containers ids come round soon. Without
    # POSIX signals there is no harmless way to ask.
    if pid == os.getpid() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def cannot(what: str, path: Path, error: OSError) -> str:
    return f"cannot {what} {path}: {error.strerror or one_line(error)}"


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
