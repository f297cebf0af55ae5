"""Tiny-ImageNet's folders: `train/CLASS/images/`, and `val/` with its `val_annotations.txt`.

The published validation set is the test set (specification, section 6). Classes are numbered in
the order of their names; that order, and that of the images (by name), is chosen.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from bench.datasets.decoded import Target
from bench.datasets.sources import Part, Source
from bench.errors import UsageError
from bench.files import cannot, one_line

_ANNOTATIONS = Path("val") / "val_annotations.txt"


def read(folder: Path, source: Source, part: Part, target: Target) -> np.ndarray:
    """Decode one part into the target.

    Returns:
        Labels, int64 [N].

    Raises:
        UsageError: a file is missing or damaged, or there are other numbers of images or classes
            than Tiny-ImageNet has.
    """
    classes = _classes(folder, source)
    files = list(_train(folder, classes) if part == "train" else _validation(folder, classes))
    count = source.images[part]
    if len(files) != count:
        raise UsageError(
            f"{folder} holds {len(files):,} {part} images, {source.title} has {count:,}"
        )
    labels = np.array([label for _, label in files], dtype=np.int64)
    if missing := source.classes - len(np.unique(labels)):
        raise UsageError(f"{folder}: {missing} of {source.classes} classes have no {part} images")
    for number, (path, label) in enumerate(files):
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(cannot("read", path, error)) from error
        target.digest.update(f"{path.name} {label} {len(content)}\n".encode())
        target.digest.update(content)
        target.images[number] = _pixels(path, content, source.image_size)
        target.advance(1)
    return labels


def _classes(folder: Path, source: Source) -> dict[str, int]:
    """Class numbers by WordNet identifier."""
    path = folder / source.marker
    names = sorted(set(_text(path).split()))
    if len(names) != source.classes:
        raise UsageError(f"{path} has {len(names)} classes, {source.title} has {source.classes}")
    for name in names:
        if not re.fullmatch(r"n\d+", name):
            raise UsageError(f"{path}: {name!r} is no class of {source.title}")
    return {name: number for number, name in enumerate(names)}


def _train(folder: Path, classes: dict[str, int]) -> Iterator[tuple[Path, int]]:
    for name, number in classes.items():
        for path in sorted((folder / "train" / name / "images").glob("*.JPEG")):
            yield path, number


def _validation(folder: Path, classes: dict[str, int]) -> Iterator[tuple[Path, int]]:
    path = folder / _ANNOTATIONS
    for line in sorted(_text(path).splitlines()):
        name, _, rest = line.partition("\t")
        label = rest.split("\t")[0]
        if label not in classes or Path(name).name != name:
            raise UsageError(f"{path}: no image and class in {line[:60]!r}")
        yield folder / "val" / "images" / name, classes[label]


def _pixels(path: Path, content: bytes, size: int) -> np.ndarray:
    """uint8 [H, W, 3]; the few grey images get three equal channels."""
    try:
        with Image.open(BytesIO(content), formats=["JPEG"]) as image:
            if image.size != (size, size):
                raise UsageError(f"{path} is {image.width}x{image.height}, not {size}x{size}")
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is no JPEG image that can be read: {one_line(error)}") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(cannot("read", path, error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is damaged: {one_line(error)}") from error
