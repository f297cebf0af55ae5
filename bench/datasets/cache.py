"""The decoded copy of a data set: plain arrays beside the data, made once, mapped into memory.

Decoding 100,000 JPEG images takes a minute, a mapped array nothing; and all processes of a run
share one copy of it in memory. The folder `decoded` holds, beside `manifest.json`,

    {train,test}-images.npy   uint8 [N, H, W, 3]
    {train,test}-labels.npy   int64 [N]
    validation-rows.npy       int64, rows of the training images that are held out
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.decoded import Target
from bench.datasets.sources import Part, Source
from bench.datasets.split import validation_rows
from bench.errors import UsageError
from bench.files import cannot, read_json, write_json_atomically
from bench.workloads.recipes import SPLIT_SEED, VALIDATION_SHARE

Reader = Callable[[Path, Source, Part, Target], np.ndarray]

_FORMAT = 1
_MANIFEST = "manifest.json"
_PARTS: tuple[Part, ...] = ("train", "test")
_FILES = (
    *(f"{part}-{what}.npy" for part in _PARTS for what in ("images", "labels")),
    "validation-rows.npy",
)


@dataclass(frozen=True)
class Decoded:
    """A decoded copy that was found whole."""

    folder: Path
    identity: str
    """Name and content: `cifar-100:` and 12 digits of a hash of images, labels and split."""

    def array(self, name: str) -> np.ndarray:
        """One of the arrays, e.g. `train-images`, mapped read-only."""
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def decoded_folder(data: Path) -> Path:
    """Where the decoded copy of a data set's folder lies."""
    return data / "decoded"


def find(data: Path, source: Source) -> Decoded | None:
    """The decoded copy, if it is there, whole, and of this version and split; reads all of it."""
    folder = decoded_folder(data)
    try:
        manifest = read_json(folder / _MANIFEST)
        if manifest["settings"] != _settings(source):
            return None
        for name in _FILES:
            if _sha256(folder / name) != manifest["files"][name]:
                return None
        return Decoded(folder, manifest["identity"])
    except (UsageError, OSError, KeyError, TypeError):
        return None


def build(data: Path, source: Source, read: Reader, advance: Callable[[int], None]) -> Decoded:
    """Decode a data set's folder and keep the copy in it, in place of one that was there.

    Raises:
        UsageError: the data are damaged or incomplete, or the folder cannot be written.
    """
    folder = decoded_folder(data)
    try:
        aside = Path(tempfile.mkdtemp(prefix=".decoding-", dir=data))
        try:
            identity = _decode(data, source, read, aside, advance)
            _put(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise UsageError(cannot("write", folder, error)) from error
    return Decoded(folder, identity)


def _decode(
    data: Path, source: Source, read: Reader, aside: Path, advance: Callable[[int], None]
) -> str:
    digest = hashlib.sha256()
    for part in _PARTS:
        shape = (source.images[part], source.image_size, source.image_size, 3)
        images = np.lib.format.open_memmap(
            aside / f"{part}-images.npy", mode="w+", dtype=np.uint8, shape=shape
        )
        labels = read(data, source, part, Target(images, digest, advance))
        images.flush()
        np.save(aside / f"{part}-labels.npy", labels)
        if part == "train":
            rows = validation_rows(labels, VALIDATION_SHARE, SPLIT_SEED)
            np.save(aside / "validation-rows.npy", rows)
            digest.update(rows.tobytes())
    identity = f"{source.name}:{digest.hexdigest()[:12]}"
    files = {name: _sha256(aside / name) for name in _FILES}
    manifest = {"settings": _settings(source), "identity": identity, "files": files}
    write_json_atomically(aside / _MANIFEST, manifest)
    return identity


def _put(aside: Path, folder: Path) -> None:
    if folder.exists():
        # Out of the way first: a folder that is not empty cannot be replaced.
        folder.rename(aside / "replaced")
    folder.mkdir()
    # The manifest last: without it nothing in the folder counts.
    for name in (*_FILES, _MANIFEST):
        (aside / name).rename(folder / name)


def _settings(source: Source) -> dict[str, Any]:
    """What a copy must have been made with to be of use here."""
    return {
        "format": _FORMAT,
        "name": source.name,
        "images": dict(source.images),
        "split_seed": SPLIT_SEED,
        "validation_share": VALIDATION_SHARE,
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
