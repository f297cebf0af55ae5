"""Archives as the data sets' authors publish them, with other images, and fewer.

CIFAR-100's pickles are written by Python 2's rules: protocol 2, text and bytes as one type, and
numpy under its old name.
"""

import hashlib
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from bench.datasets.sources import SOURCES, Source


def small_source(name: str, classes: int, train: int, test: int) -> Source:
    """A published data set with other numbers; its archive is still to be made."""
    return replace(SOURCES[name], classes=classes, images={"train": train, "test": test})


def pictures(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Smooth coloured images, uint8 [N, H, W, 3], about as hard to compress as photographs."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 5, 5, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((size, size))) for one in coarse])


def labels(count: int, classes: int) -> list[int]:
    """Every class equally often, mixed."""
    return [(7 * row + row // classes) % classes for row in range(count)]


def make_archive(source: Source, folder: Path) -> Source:
    """Write the archive into the folder.

    Returns:
        The source, with the archive's size and checksums as the published ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.archive
    members = dict(cifar_files(source) if source.name == "cifar-100" else tiny_files(source))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in members.items():
                packed.writestr(f"{source.folder}/{name}", content)
    else:
        with tarfile.open(path, "w:gz", compresslevel=1) as packed:
            for name, content in members.items():
                member = tarfile.TarInfo(f"{source.folder}/{name}")
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
    return as_published(source, path)


def make_folder(source: Source, folder: Path) -> Path:
    """The unpacked data set in the folder; returns its own folder."""
    for name, content in cifar_files(source) if source.name == "cifar-100" else tiny_files(source):
        path = folder / source.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / source.folder


def as_published(source: Source, archive: Path) -> Source:
    """The source with this archive's size and checksums."""
    content = archive.read_bytes()
    return replace(
        source,
        archive_bytes=len(content),
        md5=hashlib.md5(content).hexdigest(),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def cifar_files(source: Source) -> Iterator[tuple[str, bytes]]:
    """Names and contents, as in `cifar-100-python`."""
    yield "file.txt~", b""
    names = [b"class %d" % number for number in range(source.classes)]
    yield "meta", python2_pickle({b"fine_label_names": names, b"coarse_label_names": names[:20]})
    for seed, (part, count) in enumerate(source.images.items()):
        images = pictures(count, source.image_size, seed)
        fine = labels(count, source.classes)
        content = {
            b"filenames": [b"image_s_%06d.png" % row for row in range(count)],
            b"batch_label": b"%sing batch 1 of 1" % part.encode(),
            b"fine_labels": fine,
            b"coarse_labels": [label // 5 for label in fine],
            b"data": images.transpose(0, 3, 1, 2).reshape(count, -1).copy(),
        }
        yield part, python2_pickle(content)


def tiny_files(source: Source) -> Iterator[tuple[str, bytes]]:
    """Names and contents, as in `tiny-imagenet-200`."""
    names = [f"n{1443537 + 17 * number:08d}" for number in range(source.classes)]
    yield "wnids.txt", "".join(f"{name}\n" for name in reversed(names)).encode()
    yield "words.txt", "".join(f"{name}\tthing\n" for name in names).encode()
    images = iter(pictures(sum(source.images.values()), source.image_size))
    per_class = source.images["train"] // source.classes
    for name in names:
        for number in range(per_class):
            # A few published images are grey.
            yield f"train/{name}/images/{name}_{number}.JPEG", jpeg(next(images), number == 0)
        yield f"train/{name}/{name}_boxes.txt", b""
    lines = []
    for number, label in enumerate(labels(source.images["test"], source.classes)):
        yield f"val/images/val_{number}.JPEG", jpeg(next(images))
        lines.append(f"val_{number}.JPEG\t{names[label]}\t0\t32\t44\t62\n")
    yield "val/val_annotations.txt", "".join(lines).encode()
    yield "test/images/test_0.JPEG", jpeg(pictures(1, source.image_size)[0])


def jpeg(image: np.ndarray, grey: bool = False) -> bytes:
    buffer = io.BytesIO()
    picture = Image.fromarray(image)
    (picture.convert("L") if grey else picture).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def python2_pickle(value: Any) -> bytes:
    """As Python 2 and numpy 1 wrote it."""
    buffer = io.BytesIO()
    _Python2Pickler(buffer, protocol=2).dump(value)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


_InPython: Any = getattr(pickle, "_Pickler")  # noqa: B009  # the one whose writing can be changed


class _Python2Pickler(_InPython):
    # pickle's own table of what writes what.
    dispatch: ClassVar[dict[Any, Any]] = dict(_InPython.dispatch)

    def save_bytes(self, value: bytes) -> None:
        short = len(value) < 256
        size = bytes([len(value)]) if short else struct.pack("<i", len(value))
        self.write((pickle.SHORT_BINSTRING if short else pickle.BINSTRING) + size + value)
        self.memoize(value)

    def save_text(self, value: str) -> None:
        self.save_bytes(value.encode("ascii"))

    dispatch[bytes] = save_bytes
    dispatch[str] = save_text
