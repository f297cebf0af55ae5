"""Unpacks an archive that was checked, all or nothing, and never outside its folder."""

import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from bench.datasets.sources import Source
from bench.datasets.verify import require_published
from bench.errors import UsageError
from bench.files import cannot, one_line

_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error)


def unpack(archive: Path, source: Source, root: Path) -> Path:
    """The archive's top folder, unpacked into `root`.

    All members are looked at before the first is written; what is written lies aside until it is
    complete.

    Raises:
        UsageError: the archive is not the published one or damaged; a member has an absolute
            path, leaves the folder, or is no plain file or folder; a folder of that name is there;
            or the disk cannot be written.
    """
    require_published(archive, source)
    place = root / source.folder
    if place.exists():
        raise UsageError(f"{place} is there, but has no {source.marker}: remove it first")
    try:
        with _aside(root) as aside:
            _extract(archive, aside)
            top = aside / source.folder
            if not top.is_dir():
                raise UsageError(f"{archive} has no folder {source.folder}")
            return top.rename(place)
    except _DAMAGED as error:
        raise UsageError(f"{archive} is damaged: {one_line(error)}") from error
    except OSError as error:
        raise UsageError(cannot("unpack", archive, error)) from error


@contextmanager
def _aside(root: Path) -> Iterator[Path]:
    root.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _extract(archive: Path, into: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                mode = stat.S_IFMT(member.external_attr >> 16)
                plain = mode in (0, stat.S_IFREG, stat.S_IFDIR)  # 0: made where there are no modes
                _require_harmless(archive, member.filename, plain)
            packed.extractall(into)
        return
    with tarfile.open(archive) as packed:
        for member in packed:
            _require_harmless(archive, member.name, member.isfile() or member.isdir())
        # A second guard; pythons before 3.11.4 have none.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(into)


def _require_harmless(archive: Path, name: str, plain: bool) -> None:
    paths = (PurePosixPath(name), PureWindowsPath(name))  # whatever system it was made for
    if any(path.anchor or ".." in path.parts for path in paths):
        raise UsageError(f"{archive}: member {name!r} would leave the folder; nothing was unpacked")
    if not plain:
        raise UsageError(
            f"{archive}: member {name!r} is a link or device, no file; nothing was unpacked"
        )
