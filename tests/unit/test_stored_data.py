"""A data set on disk as a run's data: order, splits, targets, and the same whoever makes them."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.datasets.batches import BatchMaker, Splits
from bench.errors import UsageError
from bench.run_spec import RunSpec
from bench.workloads.build import load_data
from bench.workloads.data import Data, EpochOrder
from bench.workloads.registry import get_workload
from tests.support import small_data

NAMES = ("cct-cifar100", "vit-tiny-imagenet", "vit-cifar100-finetune")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_data.install(monkeypatch)
    return small_data.make_data(tmp_path / "data")


def spec_of(name: str, folder: Path, loaders: int = 0) -> RunSpec:
    (spec,) = small_data.run_specs(folder, {"workload": name, "methods": "dense"}, loaders)
    return spec


def data_of(name: str, folder: Path, loaders: int = 0, seed: int = 0) -> Data:
    spec = spec_of(name, folder, loaders)
    return load_data(get_workload(name), seed, spec.batch_size, "cpu", spec.stored)


@pytest.mark.parametrize("name", NAMES)
def test_splits_and_shapes(name: str, folder: Path) -> None:
    workload, data = get_workload(name), data_of(name, folder)
    assert data.images("train") == workload.train_images == 90
    assert data.images("validation") == workload.validation_images == 10
    assert data.images("test") == workload.test_images == 20
    assert not data.synthetic
    images, targets = data.batch(1)
    size = workload.shape.image_size
    assert images.shape == (10, 3, size, size)
    assert images.dtype == torch.float32
    assert targets.shape == (10, 5)
    assert torch.allclose(targets.sum(1), torch.ones(10))


def test_splits_share_no_image_and_lose_none(folder: Path) -> None:
    stored = spec_of("vit-tiny-imagenet", folder).stored
    assert stored is not None
    splits = Splits(stored.folder)
    every = np.load(Path(stored.folder) / "train-images.npy")
    mine = [splits.take(split, slice(None))[0] for split in ("train", "validation")]
    assert len(np.unique(np.concatenate(mine).reshape(100, -1), axis=0)) == 100
    assert sorted(image.tobytes() for image in np.concatenate(mine)) == sorted(
        image.tobytes() for image in every
    )
    held_out = splits.take("validation", slice(None))[1]
    assert np.bincount(held_out).tolist() == [2] * 5


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_is_the_split_once_in_order_and_not_augmented(name: str, folder: Path) -> None:
    one, two = data_of(name, folder), data_of(name, folder, seed=7)
    chunks = list(one.evaluation("test"))
    assert [len(targets) for _, targets in chunks] == [20]
    assert chunks[0][1].dtype == torch.int64
    for (left, _), (right, _) in zip(chunks, two.evaluation("test"), strict=True):
        assert torch.equal(left, right)


def test_evaluation_comes_in_chunks_of_the_evaluation_batch(folder: Path) -> None:
    workload, spec = get_workload("cct-cifar100"), spec_of("cct-cifar100", folder)
    assert workload.recipe.eval_batch_size == 256
    small = replace(workload, recipe=replace(workload.recipe, eval_batch_size=8))
    chunks = load_data(small, 0, 10, "cpu", spec.stored).evaluation("test")
    assert [len(targets) for _, targets in chunks] == [8, 8, 4]


def test_minibatches_follow_the_epochs_order(folder: Path) -> None:
    """Three shuffled passes, concatenated: 27 full minibatches of 10 from 3 x 90 images."""
    name = "vit-tiny-imagenet"
    workload, stored = get_workload(name), spec_of(name, folder).stored
    assert stored is not None
    bare = replace(workload.recipe, augmentation=type(workload.recipe.augmentation)())
    data = load_data(replace(workload, recipe=bare), 0, 10, "cpu", stored)
    order = EpochOrder(bare, 90, 10, 0, torch.device("cpu"))
    assert order.steps_per_epoch == workload.steps_per_epoch(10) == 27
    labels = torch.from_numpy(Splits(stored.folder).take("train", slice(None))[1])
    for step in (1, 9, 10, 27, 28):
        assert torch.equal(data.batch(step)[1], labels[order.indices(step)])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_batches_whoever_makes_them(name: str, folder: Path) -> None:
    """Here, in two other processes, in another order, from the middle on: bit for bit."""
    here, ahead, back = data_of(name, folder), data_of(name, folder, 2), data_of(name, folder, 2)
    straight = {step: here.batch(step) for step in range(1, 13)}
    for step in (*range(1, 8), 3, *range(8, 13)):
        for left, right in zip(ahead.batch(step), straight[step], strict=True):
            assert torch.equal(left, right)
    for step in (6, 7, 8, 2):
        for left, right in zip(back.batch(step), straight[step], strict=True):
            assert torch.equal(left, right)


def test_a_batch_maker_travels_by_path(folder: Path) -> None:
    stored = spec_of("cct-cifar100", folder).stored
    assert stored is not None
    make = BatchMaker(get_workload("cct-cifar100"), Splits(stored.folder), 10, 0)
    expected = make(4)  # after which its arrays are open
    packed = pickle.dumps(make)
    assert len(packed) < 20_000
    for left, right in zip(pickle.loads(packed)(4), expected, strict=True):
        assert torch.equal(left, right)


def test_a_recipe_without_normalisation_is_refused(folder: Path) -> None:
    workload, stored = get_workload("cct-cifar100"), spec_of("cct-cifar100", folder).stored
    bare = replace(workload, recipe=replace(workload.recipe, normalisation=None))
    with pytest.raises(UsageError, match="does not say how images are normalised"):
        load_data(bare, 0, 10, "cpu", stored)
