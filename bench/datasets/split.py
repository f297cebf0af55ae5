"""The validation split: a tenth of every class, the same on every machine and for every run."""

from fractions import Fraction
from hashlib import sha256

import numpy as np

from methods.rounding import exact, round_half_up


def validation_rows(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Rows of the training images that are held out for validation, ascending, int64.

    Within each class, those that come first when rows are ordered by the hash of seed and row. No
    library's random numbers are involved, so no new version can move an image.

    Args:
        labels: int64 [N], of all training images.
        share: of every class, rounded to whole images, halves up.
    """
    rows: list[int] = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label).tolist()
        members.sort(key=lambda row: sha256(f"{seed} {row}".encode()).digest())
        rows += members[: round_half_up(exact(share) * Fraction(len(members)))]
    return np.array(sorted(rows), dtype=np.int64)
