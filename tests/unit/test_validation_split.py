"""The validation split of the data sets on disk."""

import hashlib

import numpy as np

from bench.datasets.split import validation_rows

LABELS = np.array([(7 * row) % 10 for row in range(1000)])


def test_a_tenth_of_every_class() -> None:
    rows = validation_rows(LABELS, 0.1, 0)
    assert np.bincount(LABELS[rows]).tolist() == [10] * 10
    assert rows.tolist() == sorted(set(rows.tolist()))


def test_halves_of_an_image_go_up() -> None:
    assert len(validation_rows(np.zeros(15, dtype=np.int64), 0.1, 0)) == 2
    assert len(validation_rows(np.zeros(14, dtype=np.int64), 0.1, 0)) == 1


def test_the_seed_decides() -> None:
    first = validation_rows(LABELS, 0.1, 0)
    assert np.array_equal(first, validation_rows(LABELS, 0.1, 0))
    assert not np.array_equal(first, validation_rows(LABELS, 0.1, 1))


def test_pinned() -> None:
    """CIFAR-100's numbers with made-up labels: another Python or numpy must not move an image."""
    labels = np.array([(7 * row + row // 100) % 100 for row in range(50_000)])
    rows = validation_rows(labels, 0.1, 0)
    assert len(rows) == 5_000
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()[:12] == PINNED


PINNED = "19070b216695"
