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
    try:
        size = archive.stat().st_size
        if size != source.archive_bytes:
            raise UsageError(
                f"{archive} has {size:,} bytes, the published {source.title} has"
                f" {source.archive_bytes:,}: it is cut short or another file; remove it and fetch"
                " it again"
            )
        # Several sums in turn: the second reading comes from memory.
        for algorithm, expected in (("md5", source.md5), ("sha256", source.sha256)):
            with archive.open("rb") as file:
                found = hashlib.file_digest(file, algorithm).hexdigest()
            if found != expected:
                raise UsageError(
                    f"{archive} is not the published {source.title} ({algorithm} {found}, not"
                    f" {expected}): nothing was unpacked; remove it and fetch it again"
                )
    except OSError as error:
        raise UsageError(cannot("read", archive, error)) from error
