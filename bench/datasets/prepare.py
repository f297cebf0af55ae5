"""From what the user has - an archive, its folder, a decoded copy - to arrays that are ready."""

from pathlib import Path

from bench.datasets import cache, cifar, tiny_imagenet
from bench.datasets.cache import Decoded, Reader
from bench.datasets.sources import Source
from bench.datasets.unpack import unpack
from bench.datasets.watch import ConsoleWatch
from bench.errors import UsageError

_READERS: dict[str, Reader] = {"cifar-100": cifar.read, "tiny-imagenet": tiny_imagenet.read}


def prepare(source: Source, data_dir: Path, watch: ConsoleWatch) -> Decoded:
    """The decoded copy of a data set, made now where there is none.

    Args:
        data_dir: the data set's own folder, or the one that has it or its archive in it.

    Raises:
        UsageError: the data are not there (the message says how to get them), or damaged.
    """
    data = _folder(source, data_dir, watch)
    if found := cache.find(data, source):
        return found
    if not (data / source.marker).is_file():
        raise _missing(source, data_dir)
    total = sum(source.images.values())
    with watch.counting(f"decoding {source.title}", total, "images") as advance:
        return cache.build(data, source, _READERS[source.name], advance)


def has_folder(source: Source, data_dir: Path) -> bool:
    """Whether the data set lies there unpacked."""
    return _unpacked(source, data_dir) is not None


def _unpacked(source: Source, data_dir: Path) -> Path | None:
    for folder in (data_dir / source.folder, data_dir):
        if (folder / source.marker).is_file() or cache.decoded_folder(folder).is_dir():
            return folder
    return None


def _folder(source: Source, data_dir: Path, watch: ConsoleWatch) -> Path:
    """The data set's own folder; unpacked where there is only its archive."""
    if folder := _unpacked(source, data_dir):
        return folder
    archive = data_dir / source.archive
    if not archive.is_file():
        raise _missing(source, data_dir)
    watch.said(f"unpacking {archive}")
    return unpack(archive, source, data_dir)


def _missing(source: Source, data_dir: Path) -> UsageError:
    return UsageError(
        f"there is no {source.title} in {data_dir}: `bench data fetch {source.name}` gets it,"
        " --data-dir names a folder that has it; --data synthetic --steps 20 needs none"
    )
