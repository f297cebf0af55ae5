"""Synthetic batches: for timing, and said to be so."""

import pytest
import torch

from bench.errors import UsageError
from bench.workloads.build import load_data
from bench.workloads.data import Data
from bench.workloads.registry import WORKLOADS


def synthetic(seed: int = 0) -> Data:
    return load_data(WORKLOADS["vit-tiny-imagenet"], seed, batch_size=3, device="cpu")


def test_batches_have_the_models_shape() -> None:
    images, targets = synthetic().batch(1)
    assert images.shape == (3, 3, 64, 64)
    assert images.dtype == torch.float32
    assert targets.shape == (3,)
    assert targets.dtype == torch.int64
    assert set(targets.tolist()) <= set(range(200))


def test_they_are_marked_and_have_no_evaluation_split() -> None:
    data = synthetic()
    assert data.synthetic
    assert data.images("train") == 6
    assert data.images("validation") == data.images("test") == 0
    assert list(data.evaluation("test")) == []


def test_batches_depend_on_seed_and_step_alone() -> None:
    first, again, other = synthetic(), synthetic(), synthetic(seed=1)
    assert torch.equal(first.batch(7)[0], again.batch(7)[0])
    assert not torch.equal(first.batch(7)[0], other.batch(7)[0])
    assert not torch.equal(first.batch(1)[0], first.batch(2)[0])


def test_the_pool_is_resident_and_reused() -> None:
    data = synthetic()
    assert data.batch(1)[0].data_ptr() == data.batch(3)[0].data_ptr()


def test_the_global_random_state_is_untouched() -> None:
    before = torch.random.get_rng_state()
    synthetic().batch(1)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batch_larger_than_the_data_set_that_it_stands_for() -> None:
    with pytest.raises(UsageError, match="outside 1 to 90000"):
        load_data(WORKLOADS["vit-tiny-imagenet"], 0, batch_size=90_001, device="cpu")
