"""A decoded data set as the data of a run."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bench.datasets.augment import Augmented, Plain
from bench.datasets.loader import StepLoader
from bench.datasets.location import Stored
from bench.errors import UsageError
from bench.workloads.data import EpochOrder, Split, to_device
from bench.workloads.recipes import Normalisation
from bench.workloads.registry import Workload

_CPU = torch.device("cpu")


class Splits:
    """The three splits of a decoded data set, mapped into memory by each process that looks."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def images(self, split: Split) -> int:
        """Images of the split."""
        return len(self._rows[split])

    def take(self, split: Split, indices: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Images, uint8 [B, H, W, 3], and labels, int64 [B], of these rows of a split."""
        images, labels = self._parts["test" if split == "test" else "train"]
        rows = self._rows[split][indices]
        return images[rows], labels[rows]

    # Opened where they are used: a mapped array does not travel to another process, its path does.
    def __getstate__(self) -> dict[str, Path]:
        return {"_folder": self._folder}

    @cached_property
    def _parts(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        return {
            part: (self._array(f"{part}-images"), self._array(f"{part}-labels"))
            for part in ("train", "test")
        }

    @cached_property
    def _rows(self) -> dict[Split, np.ndarray]:
        held_out = np.array(self._array("validation-rows"))
        trained = np.ones(len(self._parts["train"][1]), dtype=bool)
        trained[held_out] = False
        return {
            "train": np.flatnonzero(trained),
            "validation": held_out,
            "test": np.arange(len(self._parts["test"][1])),
        }

    def _array(self, name: str) -> np.ndarray:
        return np.load(self._folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)


class BatchMaker:
    """Makes the training batch of any step, in whatever process; see `Augmented` for what it is."""

    def __init__(self, workload: Workload, splits: Splits, batch_size: int, seed: int) -> None:
        recipe = workload.recipe
        self._splits = splits
        self._seed = seed
        self._order = EpochOrder(recipe, splits.images("train"), batch_size, seed, _CPU)
        self._augmented = Augmented(
            workload.shape.image_size,
            recipe.augmentation,
            _normalisation(workload),
            workload.shape.classes,
        )

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        images, labels = self._splits.take("train", self._order.indices(step).numpy())
        return self._augmented(images, labels, self._seed, step)


class StoredData:
    """Real images from a decoded data set; see `bench.workloads.data.Data`."""

    synthetic = False

    def __init__(
        self, workload: Workload, stored: Stored, batch_size: int, seed: int, device: torch.device
    ) -> None:
        """Raises UsageError if the batch is larger than the training split."""
        self._splits = Splits(stored.folder)
        self._device = device
        self._eval_batch_size = workload.recipe.eval_batch_size
        self._plain = Plain(workload.shape.image_size, _normalisation(workload))
        make = BatchMaker(workload, self._splits, batch_size, seed)
        self._loader = StepLoader(make, stored.loaders, pin=device.type == "cuda")

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Augmented images [B, 3, H, W] and targets of a training step (from 1)."""
        images, targets = self._loader.batch(step)
        return to_device(images, self._device), to_device(targets, self._device)

    def evaluation(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """The split once, in order, not augmented, in chunks of the evaluation batch."""
        for start in range(0, self.images(split), self._eval_batch_size):
            chunk = slice(start, start + self._eval_batch_size)
            images, labels = self._splits.take(split, chunk)
            targets = torch.from_numpy(labels)
            yield to_device(self._plain(images), self._device), to_device(targets, self._device)

    def images(self, split: Split) -> int:
        """Images of the split."""
        return self._splits.images(split)


def _normalisation(workload: Workload) -> Normalisation:
    if workload.recipe.normalisation is None:
        raise UsageError(f"the recipe of {workload.name} does not say how images are normalised")
    return workload.recipe.normalisation
