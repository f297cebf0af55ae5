"""What a run asks of its data, and the order in which images come.

No class here touches the global random state: a batch depends on the run's seed and the step
alone, so every method sees the same images, and a resumed run the same as an uninterrupted one.
"""

from collections.abc import Iterator
from typing import Literal, Protocol

import torch
from torch import Tensor

from bench.workloads.recipes import Recipe
from methods.chance import torch_generator

Split = Literal["train", "validation", "test"]


class Data(Protocol):
    """Device-resident images and targets of one run."""

    synthetic: bool
    """Whether images are generated noise: fit for timing, not for accuracy."""

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Images (float32 [B, 3, H, W]) and targets of a training step, from 1.

        Targets are classes (int64 [B]), or distributions (float32 [B, classes]) where the recipe
        mixes images of different classes.
        """
        ...

    def evaluation(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """The split once, in a fixed order, not augmented, in chunks of the evaluation batch."""
        ...

    def images(self, split: Split) -> int:
        """Images of the split; 0 where there is no such split."""
        ...


class EpochOrder:
    """Which images make up the minibatch of a step.

    An epoch concatenates shuffled passes over the training split, as many as the recipe says; its
    last incomplete minibatch is dropped. A pure function of (seed, step); the order of the epoch
    at hand is kept.
    """

    def __init__(
        self, recipe: Recipe, images: int, batch_size: int, seed: int, device: torch.device
    ) -> None:
        """Raises UsageError if the batch is empty or larger than the split."""
        self.steps_per_epoch = recipe.steps_per_epoch(images, batch_size)
        self.batch_size = batch_size
        self._images = images
        self._seed = seed
        self._device = device
        self._passes = recipe.passes_per_epoch
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)

    def epoch(self, step: int) -> int:
        """The epoch (from 0) to which a step (from 1) belongs."""
        return (step - 1) // self.steps_per_epoch

    def indices(self, step: int) -> Tensor:
        """Images of the step's minibatch, int64 [B] on the device."""
        epoch = self.epoch(step)
        if epoch != self._epoch:
            self._order, self._epoch = self._shuffled(epoch), epoch
        return self._order[self.minibatch(step)]

    def minibatch(self, step: int) -> slice:
        """Where the step's minibatch lies in its epoch."""
        start = (step - 1) % self.steps_per_epoch * self.batch_size
        return slice(start, start + self.batch_size)

    def _shuffled(self, epoch: int) -> Tensor:
        # Drawn on the CPU, so that every device sees the same order.
        generator = torch_generator(torch.device("cpu"), self._seed, "order", epoch)
        passes = [torch.randperm(self._images, generator=generator) for _ in range(self._passes)]
        return to_device(torch.cat(passes), self._device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a CPU tensor without making the host wait for the device's queue."""
    # CUDA stages pageable memory before the call returns, so the source may go at once.
    return tensor.to(device, non_blocking=device.type == "cuda")
