"""Generated batches that stay on the device: for timing models without their data set.

What is timed is then the training step alone, as in the paper (specification, section 9), and
every record of such a run says `synthetic`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from bench.workloads.data import Split
from bench.workloads.shapes import IMAGE_CHANNELS, ModelShape
from methods.chance import torch_generator

_POOL = 2
"""Batches held. Two, so that no step sees the images of the step before; every further one would
add to each method's peak memory, and so flatter none but hide their differences."""


class SyntheticData:
    """A small pool of random batches; see `bench.workloads.data.Data`. It has no other split."""

    synthetic = True

    def __init__(self, shape: ModelShape, batch_size: int, seed: int, device: torch.device) -> None:
        # Drawn on the CPU, so that every device gets the same images.
        generator = torch_generator(torch.device("cpu"), seed, "synthetic")
        size = (batch_size, IMAGE_CHANNELS, shape.image_size, shape.image_size)
        self._batches = [
            (
                torch.randn(size, generator=generator).to(device),
                torch.randint(shape.classes, (batch_size,), generator=generator).to(device),
            )
            for _ in range(_POOL)
        ]

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Images [B, 3, H, W], standard normal, and targets [B] of a training step (from 1)."""
        return self._batches[(step - 1) % _POOL]

    def evaluation(self, split: Split) -> Iterator[tuple[Tensor, Tensor]]:
        """Nothing: accuracy on noise would mean nothing."""
        return iter(())

    def images(self, split: Split) -> int:
        """Distinct images held for training; 0 for the other splits."""
        return _POOL * len(self._batches[0][1]) if split == "train" else 0
