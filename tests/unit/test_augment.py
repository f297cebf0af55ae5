"""What is done to images: as the recipe says, by seed and step alone, global state untouched."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from bench.datasets.augment import Augmented, Plain
from bench.workloads.recipes import (
    CCT_CIFAR100,
    VIT_CIFAR100_FINETUNE,
    VIT_TINY_IMAGENET,
    Augmentation,
    Normalisation,
    Recipe,
)
from tests.support.archives import labels, pictures

PLAIN = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
CLASSES = 10
IMAGES, LABELS = pictures(64, 32), np.array(labels(64, CLASSES))


def augmented(augmentation: Augmentation, size: int = 32) -> Augmented:
    return Augmented(size, augmentation, PLAIN, CLASSES)


def batch(augmentation: Augmentation, seed: int = 0, step: int = 1) -> torch.Tensor:
    return augmented(augmentation)(IMAGES, LABELS, seed, step)[0]


def as_tensor(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images.copy()).permute(0, 3, 1, 2) / 255


def test_plain_images_are_only_normalised() -> None:
    norm = Normalisation((0.5, 0.25, 0.125), (0.5, 0.25, 2.0))
    images = Plain(32, norm)(IMAGES)
    expected = transforms.Normalize(norm.mean, norm.deviation)(as_tensor(IMAGES))
    assert torch.allclose(images, expected, atol=1e-6)
    assert images.is_contiguous()
    assert images.dtype == torch.float32


def test_plain_images_are_resized() -> None:
    images = Plain(64, PLAIN)(IMAGES[:1])
    expected = Image.fromarray(IMAGES[0]).resize((64, 64), Image.Resampling.BILINEAR)
    assert torch.equal(images, as_tensor(np.asarray(expected)[None]))


def test_nothing_is_done_where_the_recipe_asks_for_nothing() -> None:
    images, targets = augmented(Augmentation())(IMAGES, LABELS, 0, 1)
    assert torch.equal(images, as_tensor(IMAGES))
    assert torch.equal(targets, torch.from_numpy(LABELS))


def test_crops_are_shifted_images() -> None:
    moved = batch(Augmentation(crop_padding=4))
    padded = torch.nn.functional.pad(as_tensor(IMAGES), (4, 4, 4, 4))
    corners = set()
    for image, whole in zip(moved, padded, strict=True):
        at = [
            (y, x)
            for y in range(9)
            for x in range(9)
            if torch.equal(image, whole[:, y : y + 32, x : x + 32])
        ]
        assert at
        corners.add(at[0])
    assert len(corners) > 20


def test_about_half_of_the_images_are_flipped() -> None:
    images = batch(Augmentation(horizontal_flip=True))
    original = as_tensor(IMAGES)
    flipped = [torch.equal(a, b.flip(2)) for a, b in zip(images, original, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(images, original, strict=True)]
    assert sum(flipped) + sum(kept) == 64
    assert 16 <= sum(flipped) <= 48


@pytest.mark.parametrize("policy", ["randaugment-2-9", "autoaugment-imagenet"])
def test_policies_are_torchvisions_own(policy: str) -> None:
    """The table that is remembered changes no draw and no pixel."""
    theirs = (
        transforms.RandAugment(num_ops=2, magnitude=9)
        if policy == "randaugment-2-9"
        else transforms.AutoAugment(transforms.AutoAugmentPolicy.IMAGENET)
    )
    ours = augmented(Augmentation(policy=policy))._policy  # pyright: ignore[reportArgumentType]
    assert ours is not None
    changed = 0
    for seed, image in enumerate(IMAGES):
        picture = Image.fromarray(image)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            expected = np.asarray(theirs(picture))
            torch.manual_seed(seed)
            assert np.array_equal(np.asarray(ours(picture)), expected)
        changed += not np.array_equal(expected, image)
    assert changed > 32


def test_a_share_of_the_images_has_a_rectangle_of_mean_colour() -> None:
    grey = Normalisation((2.0, 2.0, 2.0), (1.0, 1.0, 1.0))  # no pixel is zero but an erased one
    make = Augmented(32, Augmentation(random_erasing=0.25), grey, CLASSES)
    erased = torch.cat([make(IMAGES, LABELS, 0, step)[0] for step in range(1, 9)]) == 0
    shares = erased.all(dim=1).float().mean(dim=(1, 2))
    assert 0.15 < (shares > 0).float().mean() < 0.35
    assert shares.max() < 0.4
    assert torch.equal(erased.all(dim=1), erased.any(dim=1)), "all channels, or none"


MIXED = Augmentation(mixing=("mixup",), mixing_probability=1.0, mixup_alpha=0.8)


def test_mixup_mixes_images_and_targets_alike() -> None:
    images, targets = augmented(MIXED)(IMAGES, LABELS, 0, 1)
    original = as_tensor(IMAGES)
    once = torch.nn.functional.one_hot(torch.from_numpy(LABELS), CLASSES).float()
    assert targets.shape == (64, CLASSES)
    assert targets.dtype == torch.float32
    share = ((images - original.flip(0)) / (original - original.flip(0))).nanmedian()
    assert 0 < share < 1
    assert torch.allclose(images, share * original + (1 - share) * original.flip(0), atol=1e-5)
    assert torch.allclose(targets, share * once + (1 - share) * once.flip(0), atol=1e-5)


def test_cutmix_replaces_a_rectangle() -> None:
    cut = Augmentation(mixing=("cutmix",), mixing_probability=1.0, cutmix_alpha=1.0)
    images, targets = augmented(cut)(IMAGES, LABELS, 0, 2)
    original = as_tensor(IMAGES)
    own, others = images == original, images == original.flip(0)
    assert bool((own | others).all())
    share = float((images[0] == original[0]).all(0).float().mean())
    assert 0 < share < 1
    row = next(n for n in range(32) if LABELS[n] != LABELS[63 - n])
    assert targets[row, LABELS[row]].item() == pytest.approx(share, abs=0.02)


def test_batches_are_mixed_as_often_as_the_recipe_says() -> None:
    """Mixup and CutMix about equally often, and in half of the batches neither."""
    both = replace(MIXED, mixing=("mixup", "cutmix"), mixing_probability=0.5, cutmix_alpha=1.0)
    make, original = augmented(both), as_tensor(IMAGES)
    kinds = {"none": 0, "cutmix": 0, "mixup": 0}
    for step in range(1, 201):
        images, targets = make(IMAGES, LABELS, 0, step)
        assert targets.shape == (64, CLASSES)
        assert torch.allclose(targets.sum(1), torch.ones(64))
        if torch.equal(images, original):
            kinds["none"] += 1
        else:
            pixels = (images == original) | (images == original.flip(0))
            kinds["cutmix" if bool(pixels.all()) else "mixup"] += 1
    assert 75 <= kinds["none"] <= 125
    assert 30 <= kinds["cutmix"] <= 70
    assert 30 <= kinds["mixup"] <= 70


RECIPES = [
    pytest.param(CCT_CIFAR100, 32, id="cct"),
    pytest.param(VIT_TINY_IMAGENET, 64, id="vit"),
    pytest.param(VIT_CIFAR100_FINETUNE, 64, id="finetune"),
]


@pytest.mark.parametrize(("recipe", "size"), RECIPES)
def test_a_batch_depends_on_seed_and_step_alone(recipe: Recipe, size: int) -> None:
    assert recipe.normalisation is not None
    make = Augmented(size, recipe.augmentation, recipe.normalisation, CLASSES)
    again = Augmented(size, recipe.augmentation, recipe.normalisation, CLASSES)
    straight = [make(IMAGES, LABELS, 3, step) for step in (1, 2, 3)]
    random.seed(99)
    np.random.seed(99)
    torch.manual_seed(99)
    for step in (3, 1, 2):
        images, targets = again(IMAGES, LABELS, 3, step)
        assert images.shape == (64, 3, size, size)
        assert torch.equal(images, straight[step - 1][0])
        assert torch.equal(targets, straight[step - 1][1])
    assert not torch.equal(straight[0][0], straight[1][0])
    assert not torch.equal(straight[0][0], make(IMAGES, LABELS, 4, 1)[0])


def test_an_images_draws_do_not_depend_on_the_others() -> None:
    recipe = replace(CCT_CIFAR100.augmentation, mixing=(), mixing_probability=0.0)
    whole = batch(recipe)
    other = IMAGES.copy()
    other[0] = 255 - other[0]
    changed = augmented(recipe)(other, LABELS, 0, 1)[0]
    assert torch.equal(changed[1:], whole[1:])


def test_global_generators_are_untouched() -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # pyright: ignore
    batch(VIT_TINY_IMAGENET.augmentation)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # pyright: ignore
