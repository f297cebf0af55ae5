"""The digits: real images, a fixed stratified split, batches that depend on seed and step alone."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_digits

from bench.errors import UsageError
from bench.workloads.build import load_data
from bench.workloads.data import Data, EpochOrder, Split
from bench.workloads.digits import split_rows
from bench.workloads.registry import WORKLOADS

WORKLOAD = WORKLOADS["vit-digits"]
TARGETS = torch.from_numpy(load_digits(return_X_y=True)[1]).to(torch.int64)  # pyright: ignore[reportArgumentType]
CPU = torch.device("cpu")


def digits(seed: int = 0, batch_size: int = 64) -> Data:
    return load_data(WORKLOAD, seed, batch_size, "cpu")


def test_splits_are_disjoint_and_complete() -> None:
    rows = torch.cat(list(split_rows(TARGETS).values()))
    assert sorted(rows.tolist()) == list(range(1797))


def test_splits_are_stratified() -> None:
    whole = Counter(TARGETS.tolist())
    rows = split_rows(TARGETS)
    shares: dict[Split, float] = {"train": 0.7, "validation": 0.1, "test": 0.2}
    for split, share in shares.items():
        part = Counter(TARGETS[rows[split]].tolist())
        for digit, count in whole.items():
            assert abs(part[digit] - share * count) <= 1, (split, digit)


@pytest.mark.parametrize("name", ["vit-digits", "cct-digits"])
def test_the_registry_knows_the_sizes(name: str) -> None:
    workload = WORKLOADS[name]
    data = load_data(workload, 0, 32, CPU)
    assert data.images("train") == workload.train_images
    assert data.images("validation") == workload.validation_images
    assert data.images("test") == workload.test_images
    assert not data.synthetic


def test_batches() -> None:
    images, targets = digits().batch(1)
    assert images.shape == (64, 3, 32, 32)
    assert images.dtype == torch.float32
    assert images.is_contiguous()
    assert targets.shape == (64,)
    assert targets.dtype == torch.int64
    assert torch.equal(images[:, 0], images[:, 2])


def test_training_images_are_normalised() -> None:
    images = torch.cat([images for images, _ in digits().evaluation("test")])
    assert images.mean().item() == pytest.approx(0, abs=0.05)
    assert images.std().item() == pytest.approx(1, abs=0.05)


def test_evaluation_is_the_whole_split_in_order() -> None:
    chunks = list(digits(seed=3).evaluation("test"))
    assert [len(targets) for _, targets in chunks] == [256, 101]
    expected = TARGETS[split_rows(TARGETS)["test"]]
    assert torch.equal(torch.cat([targets for _, targets in chunks]), expected)


def test_evaluation_images_do_not_depend_on_the_seed() -> None:
    (first, _), (second, _) = next(digits(0).evaluation("test")), next(digits(9).evaluation("test"))
    assert torch.equal(first, second)


def test_a_batch_is_a_pure_function_of_seed_and_step() -> None:
    steps = [1, 2, 19, 20, 40]
    straight = {step: digits().batch(step) for step in steps}
    data = digits()
    for step in reversed(steps):  # another order, across epochs, as a resumed run would
        images, targets = data.batch(step)
        assert torch.equal(images, straight[step][0])
        assert torch.equal(targets, straight[step][1])


def test_seeds_and_epochs_differ() -> None:
    data = digits()
    assert not torch.equal(data.batch(1)[1], digits(seed=1).batch(1)[1])
    assert not torch.equal(data.batch(1)[1], data.batch(20)[1])


def test_the_global_random_state_is_untouched() -> None:
    before = torch.random.get_rng_state()
    digits().batch(1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_padding_images_are_not_moved() -> None:
    still = replace(
        WORKLOAD, recipe=replace(WORKLOAD.recipe, augmentation=type(WORKLOAD.recipe.augmentation)())
    )
    moved = digits().batch(1)[0]
    images = load_data(still, 0, 64, CPU).batch(1)[0]
    same = [torch.equal(a, b) for a, b in zip(images, moved, strict=True)]
    assert 0 < sum(same) < 32  # one crop in nine is the middle one
    inner = moved[:, :, 1:-1, 1:-1]
    shifts = [images[:, :, 1 + y : 31 + y, 1 + x : 31 + x] for y in (-1, 0, 1) for x in (-1, 0, 1)]
    for index, image in enumerate(inner):
        assert any(torch.equal(image, shift[index]) for shift in shifts)


def test_an_epoch_sees_no_image_twice() -> None:
    order = EpochOrder(WORKLOAD.recipe, images=100, batch_size=9, seed=0, device=CPU)
    assert order.steps_per_epoch == 11
    seen = torch.cat([order.indices(step) for step in range(1, 12)]).tolist()
    assert len(set(seen)) == len(seen) == 99
    assert order.epoch(11) == 0
    assert order.epoch(12) == 1


def test_an_epoch_of_three_passes_has_incomplete_batches_only_at_its_end() -> None:
    recipe = replace(WORKLOAD.recipe, passes_per_epoch=3)
    order = EpochOrder(recipe, images=10, batch_size=4, seed=0, device=CPU)
    assert order.steps_per_epoch == 7  # 30 // 4: the third batch crosses from pass one to two
    seen = torch.cat([order.indices(step) for step in range(1, 8)]).tolist()
    assert set(seen[:10]) == set(seen[10:20]) == set(range(10))
    assert len(seen) == 28


@pytest.mark.parametrize("batch_size", [0, 1262])
def test_batch_larger_than_the_data(batch_size: int) -> None:
    with pytest.raises(UsageError, match=f"batch size {batch_size} is outside 1 to 1261"):
        digits(batch_size=batch_size)
