"""Training and test images from stored ones, as a recipe says (specification, sections 6 and 7).

Transforms are torchvision's and timm's, which draw from global generators. Here these are seeded
by (run's seed, step) for what concerns a batch, and by (run's seed, step, position) for each
image, and put back afterwards: a batch depends on seed and step alone, whoever makes it.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from PIL import Image
from timm.data.mixup import Mixup
from timm.data.random_erasing import RandomErasing
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torchvision import transforms

from bench.workloads.recipes import Augmentation, Normalisation
from methods.chance import numpy_generator


class Plain:
    """Stored images to a model's input: resized, normalised, nothing else."""

    def __init__(self, image_size: int, normalisation: Normalisation) -> None:
        self._size = image_size
        self._mean = torch.tensor(normalisation.mean).reshape(1, 3, 1, 1)
        self._deviation = torch.tensor(normalisation.deviation).reshape(1, 3, 1, 1)

    def __call__(self, images: np.ndarray) -> Tensor:
        """uint8 [B, h, w, 3] to float32 [B, 3, H, W]."""
        return self.normalised([self.resized(image) for image in images])

    def resized(self, image: np.ndarray) -> Image.Image:
        """One image at the model's size; bilinear is chosen."""
        picture = Image.fromarray(image)
        if picture.size == (self._size, self._size):
            return picture
        return picture.resize((self._size, self._size), Image.Resampling.BILINEAR)

    def normalised(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Equal pictures to float32 [B, 3, H, W]."""
        stacked = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures]))
        images = stacked.permute(0, 3, 1, 2).to(
            torch.float32, memory_format=torch.contiguous_format
        )
        return images.div_(255).sub_(self._mean).div_(self._deviation)


class Augmented:
    """Stored images and labels to one training batch.

    Per image: crop, flip, policy; then erased rectangles, filled with the mean colour; then
    the whole batch is mixed, or not. Geometric operations of the policies leave black behind
    (torchvision's defaults; both fillings are chosen).
    """

    def __init__(
        self,
        image_size: int,
        augmentation: Augmentation,
        normalisation: Normalisation,
        classes: int,
    ) -> None:
        self._plain = Plain(image_size, normalisation)
        self._classes = classes
        self._size = image_size
        self._padding = augmentation.crop_padding
        self._flips = augmentation.horizontal_flip
        self._policy = _policy(augmentation)
        self._erase = _erasing(augmentation)
        self._mix = _mixing(augmentation, classes)
        self.mixes = bool(augmentation.mixing)

    def __call__(
        self, images: np.ndarray, labels: np.ndarray, seed: int, step: int
    ) -> tuple[Tensor, Tensor]:
        """Of uint8 [B, h, w, 3] and int64 [B].

        Returns:
            Images, float32 [B, 3, H, W], and targets: int64 [B], or where the recipe mixes batches
            float32 [B, classes], whether this one is mixed or not (all steps cost the same).
        """
        draws = numpy_generator(seed, "augmentation", step)
        seeds = draws.integers(2**63, size=len(images) + 1).tolist()
        corners = draws.integers(
            -self._padding, self._padding, size=(len(images), 2), endpoint=True
        ).tolist()
        flipped = (draws.random(len(images)) < 0.5) & self._flips
        with _global_generators_kept():
            pictures = []
            for image, corner, flip, own in zip(images, corners, flipped, seeds[1:], strict=True):
                picture = self._moved(self._plain.resized(image), corner, flip)
                if self._policy:
                    torch.default_generator.manual_seed(own)
                    picture = self._policy(picture)
                pictures.append(picture)
            batch, targets = self._plain.normalised(pictures), torch.from_numpy(labels)
            random.seed(seeds[0])
            np.random.seed(seeds[0] % 2**32)
            if self._erase:
                self._erase(batch)
            if self._mix:
                batch, targets = self._mix(batch, targets)
            elif self.mixes:
                targets = one_hot(targets, self._classes).to(torch.float32)
        return batch, targets

    def _moved(self, picture: Image.Image, corner: list[int], flip: bool) -> Image.Image:
        """Cropped to the same size, black where it leaves the picture, and perhaps flipped.

        Pillow's own: torchvision's transforms do the same and take ten times as long about it.
        """
        left, top = corner
        picture = picture.crop((left, top, left + self._size, top + self._size))
        return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else picture


# The policies tabulate their magnitudes anew for every image, most of their time; here once.
class _RandAugment(transforms.RandAugment):
    _augmentation_space = functools.cache(transforms.RandAugment._augmentation_space)


class _AutoAugment(transforms.AutoAugment):
    _augmentation_space = functools.cache(transforms.AutoAugment._augmentation_space)


def _policy(augmentation: Augmentation) -> nn.Module | None:
    match augmentation.policy:
        case "none":
            return None
        case "randaugment-2-9":
            return _RandAugment(num_ops=2, magnitude=9)
        case "autoaugment-imagenet":
            return _AutoAugment(transforms.AutoAugmentPolicy.IMAGENET)


def _erasing(augmentation: Augmentation) -> RandomErasing | None:
    if not augmentation.random_erasing:
        return None
    return RandomErasing(augmentation.random_erasing, mode="const", device="cpu")


def _mixing(augmentation: Augmentation, classes: int) -> Mixup | None:
    """None where no batch is ever mixed. The label smoothing is the loss's."""
    if not augmentation.mixing or not augmentation.mixing_probability:
        return None
    return Mixup(
        mixup_alpha=augmentation.mixup_alpha if "mixup" in augmentation.mixing else 0.0,
        cutmix_alpha=augmentation.cutmix_alpha if "cutmix" in augmentation.mixing else 0.0,
        prob=augmentation.mixing_probability,
        switch_prob=0.5,
        mode="batch",
        label_smoothing=0.0,
        num_classes=classes,
    )


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    of_torch = torch.default_generator.get_state()
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(of_torch)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
