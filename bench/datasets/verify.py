"""Whether an archive is the published one. Asked before anything in it is unpacked or read."""

import hashlib
from pathlib import Path

from bench.datasets.sources import Source
from bench.errors import UsageError
from bench.files import cannot


def require_published(archive: Path, source: Source) -> None:
    """Compare size, md5 and sha256 with the published ones.

    Raises:
        UsageError: it cannot be read, or is another file; the message says which figure differs.
    """
    wrong = what_differs(archive, source)
    if wrong:
        raise UsageError(f"{archive} {wrong}: nothing was unpacked; remove it and fetch it again")


def what_differs(archive: Path, source: Source) -> str | None:
    """What makes the archive another file than the published one; None if it is that.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        size = archive.stat().st_size
        if size != source.archive_bytes:
            return (
                f"has {size:,} bytes, the published {source.title} has {source.archive_bytes:,}"
                " (it is cut short or another file)"
            )
        # Several sums in turn: the second reading comes from memory.
        for algorithm, expected in (("md5", source.md5), ("sha256", source.sha256)):
            with archive.open("rb") as file:
                found = hashlib.file_digest(file, algorithm).hexdigest()
            if found != expected:
                return f"is not the published {source.title} ({algorithm} {found}, not {expected})"
    except OSError as error:
        raise UsageError(cannot("read", archive, error)) from error
    return None
