"""CIFAR-100's "python version": one pickle of all images for each part.

Read here and not by torchvision, whose reader runs whatever a pickle asks for; a test holds both
to the same images and labels.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from bench.datasets.decoded import Target
from bench.datasets.sources import Part, Source
from bench.datasets.unpickle import load_arrays
from bench.errors import UsageError
from bench.files import cannot, one_line


def read(folder: Path, source: Source, part: Part, target: Target) -> np.ndarray:
    """Decode one part into the target, in published order.

    Returns:
        The fine labels, int64 [N].

    Raises:
        UsageError: the file is missing, damaged, asks for code, or holds another number of images
            or classes than CIFAR-100.
    """
    path = folder / part
    try:
        content = path.read_bytes()
        pixels, labels = _arrays(load_arrays(content))
    except OSError as error:
        raise UsageError(cannot("read", path, error)) from error
    except (pickle.UnpicklingError, ValueError) as error:
        raise UsageError(f"{path} is no part of {source.title}: {one_line(error)}") from error
    count, size = source.images[part], source.image_size
    if len(pixels) != count or len(labels) != count:
        raise UsageError(
            f"{path} holds {len(pixels):,} images and {len(labels):,} labels, {source.title} has"
            f" {count:,}"
        )
    classes = np.unique(labels)
    if not np.array_equal(classes, np.arange(source.classes)):
        raise UsageError(
            f"{path} has {len(classes)} classes, {source.title} has {source.classes} (0 to"
            f" {source.classes - 1})"
        )
    target.digest.update(content)
    # Stored as rows of red, then green, then blue planes.
    target.images[:] = pixels.reshape(count, 3, size, size).transpose(0, 2, 3, 1)
    target.advance(count)
    return labels


def _arrays(content: Any) -> tuple[np.ndarray, np.ndarray]:
    """Pixels, uint8 [N, 3072], and fine labels, int64 [N]. Raises ValueError for other content."""
    try:
        pixels, labels = content["data"], content["fine_labels"]
    except (TypeError, KeyError, IndexError):
        raise ValueError("it has no 'data' and 'fine_labels'") from None
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2:
        raise ValueError("its 'data' are no table of bytes")
    if pixels.shape[1] != 3 * 32 * 32:
        raise ValueError(f"its images have {pixels.shape[1]} values, not 3,072")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("its 'fine_labels' are no list of whole numbers")
    return pixels, np.array(labels, dtype=np.int64)
