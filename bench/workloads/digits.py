"""Scikit-learn's handwritten digits: 1,797 real images that need no download.

They come 8x8 in grey with values 0 to 16, and are shown to the models as 32x32 RGB. Stored once
per image in grey, padded for the random crop; crops and channels are made per batch.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional as F

from bench.workloads.data import EpochOrder, Split, to_device
from bench.workloads.recipes import Recipe
from bench.workloads.shapes import IMAGE_CHANNELS
from methods.chance import torch_generator

_CLASSES = 10
ALL = tuple(range(_CLASSES))
_STORED_SIZE = 8
_LARGEST_VALUE = 16.0
_SPLIT_OF_REST: dict[int, Split] = {3: "test", 8: "test", 6: "validation"}
"""Of ten consecutive images of a class, which leave the training split (counted from 0)."""


class DigitsData:
    """The digits on a device; see `bench.workloads.data.Data`."""

    synthetic = False

    def __init__(
        self,
        image_size: int,
        recipe: Recipe,
        batch_size: int,
        seed: int,
        device: torch.device,
        digits: Sequence[int] = ALL,
    ) -> None:
        """Raises UsageError if the batch is larger than the training split.

        Args:
            digits: which of the ten, in the order of their classes. Normalisation and splits are
                those of all ten, so that a half has no image in another split.
        """
        images, targets = _normalised(image_size)
        classes = _classes(targets, digits)
        self._size = image_size
        self._eval_batch_size = recipe.eval_batch_size
        self._padding = recipe.augmentation.crop_padding
        self._seed = seed
        self._splits: dict[Split, tuple[Tensor, Tensor]] = {
            split: (images[rows].to(device), classes[rows].to(device))
            for split, rows in _chosen(split_rows(targets), classes).items()
        }
        train_images, self._train_targets = self._splits["train"]
        self._padded = _pad(train_images, self._padding)
        self._order = EpochOrder(recipe, len(train_images), batch_size, seed, device)
        self._corners_epoch = -1
        self._corners = torch.empty(0, 2, dtype=torch.int64)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Images [B, 3, H, W] and targets [B] of a training step (from 1), randomly cropped."""
        rows = self._order.indices(step)
        within = torch.arange(self._size, device=rows.device)
        top, left = self._crop_corners(step).unbind(1)
        y = (top[:, None] + within)[:, :, None]
        x = (left[:, None] + within)[:, None, :]
        return _as_rgb(self._padded[rows[:, None, None], y, x]), self._train_targets[rows]

    def evaluation(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """The split once, in order, not augmented, in chunks of the evaluation batch."""
        images, targets = self._splits[split]
        for start in range(0, len(images), self._eval_batch_size):
            chunk = slice(start, start + self._eval_batch_size)
            yield _as_rgb(images[chunk]), targets[chunk]

    def images(self, split: Split) -> int:
        """Images of the split."""
        return len(self._splits[split][1])

    def _crop_corners(self, step: int) -> Tensor:
        """Top and left of each crop in the padded image, int64 [B, 2]."""
        epoch = self._order.epoch(step)
        if epoch != self._corners_epoch:
            generator = torch_generator(torch.device("cpu"), self._seed, "crop", epoch)
            count = (self._order.steps_per_epoch * self._order.batch_size, 2)
            corners = torch.randint(2 * self._padding + 1, count, generator=generator)
            self._corners = to_device(corners, self._padded.device)
            self._corners_epoch = epoch
        return self._corners[self._order.minibatch(step)]


def split_rows(targets: Tensor) -> dict[Split, Tensor]:
    """Rows of each split: stratified, about 70, 10 and 20 %, the same for every run.

    Systematic rather than drawn: of each ten consecutive images of a class, seven train. No
    library's random numbers are involved, so no new version can move an image.
    """
    names: list[Split] = ["train"] * len(targets)
    for digit in range(_CLASSES):
        for position, row in enumerate((targets == digit).nonzero().flatten().tolist()):
            names[row] = _SPLIT_OF_REST.get(position % 10, "train")
    splits: tuple[Split, ...] = ("train", "validation", "test")
    return {
        split: torch.tensor([row for row, name in enumerate(names) if name == split])
        for split in splits
    }


def _classes(targets: Tensor, digits: Sequence[int]) -> Tensor:
    """The class of each image, int64 [1797]; -1 where its digit is not among those wanted."""
    number = torch.full((_CLASSES,), -1)
    number[list(digits)] = torch.arange(len(digits))
    return number[targets]


def _chosen(rows: dict[Split, Tensor], classes: Tensor) -> dict[Split, Tensor]:
    return {split: of_split[classes[of_split] >= 0] for split, of_split in rows.items()}


def _normalised(image_size: int) -> tuple[Tensor, Tensor]:
    """All images, float32 [1797, H, W] with the training split's mean 0 and deviation 1, and
    their targets, int64 [1797]."""
    values, labels = load_digits(return_X_y=True)
    targets = torch.from_numpy(np.asarray(labels)).to(torch.int64)
    small = torch.from_numpy(np.asarray(values)).to(torch.float32) / _LARGEST_VALUE
    small = small.reshape(-1, 1, _STORED_SIZE, _STORED_SIZE)
    images = F.interpolate(small, size=(image_size, image_size), mode="bilinear")[:, 0]
    train = images[split_rows(targets)["train"]]
    return (images - train.mean()) / train.std(), targets


def _pad(images: Tensor, padding: int) -> Tensor:
    """[N, H, W] with a border of background, the darkest value there is."""
    return F.pad(images, (padding,) * 4, value=float(images.min()))


def _as_rgb(grey: Tensor) -> Tensor:
    """[B, H, W] to [B, 3, H, W], contiguous."""
    return grey[:, None].expand(-1, IMAGE_CHANNELS, -1, -1).contiguous()
