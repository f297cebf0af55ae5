"""What a reader of a data set is given to fill."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Digest(Protocol):
    """As hashlib's."""

    def update(self, data: bytes, /) -> None: ...


@dataclass(frozen=True)
class Target:
    """Where one part of a data set is decoded to."""

    images: np.ndarray
    """uint8 [N, H, W, 3], to be filled; N is the published number of images."""
    digest: Digest
    """To be told every byte that the images and labels are made from, in a fixed order."""
    advance: Callable[[int], None]
    """To be told how many more images are done."""
