"""The same seed gives all methods the same initial dense weights, data order and augmentation."""

from dataclasses import replace

import pytest
import torch

from bench.method_registry import METHODS, get_method
from bench.session import Session, build_session
from bench.study_file import study_spec

WORKLOADS = ("vit-digits", "cct-digits")


def session(method: str, workload: str, seed: int = 3) -> Session:
    given = {
        "methods": method,
        "workload": workload,
        "density": "0.5",
        "steps": 40,
        "batch_size": 8,
        "seeds": str(seed),
    }
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(spec, torch.device("cpu"))


@pytest.fixture(scope="module", params=WORKLOADS)
def dense(request: pytest.FixtureRequest) -> Session:
    return session("dense", request.param)


@pytest.mark.parametrize("name", METHODS)
def test_same_start(name: str, dense: Session) -> None:
    mine = session(name, dense.spec.workload)
    for step in (1, 2, 17, 40):
        for left, right in zip(mine.data.batch(step), dense.data.batch(step), strict=True):
            assert torch.equal(left, right)
    masks = mine.method.masks()
    for entry, value in dense.model.state_dict().items():
        there = mine.model.state_dict()[entry]
        if there.shape == value.shape:
            expected = value * masks[entry] if entry in masks else value
            assert torch.equal(there, expected), entry
        else:
            # A compact model inherits slices of the dense one: no value is its own.
            assert bool(torch.isin(there, value).all()), entry
            assert there.numel() < value.numel()
    assert get_method(name).sparse == (
        bool(masks) or mine.method.topology() != dense.method.topology()
    )


@pytest.mark.parametrize("name", METHODS)
def test_random_state_during_training_is_the_same(name: str, dense: Session) -> None:
    """What the model itself draws while it trains (stochastic depth) comes from the run's seed."""
    session(name, dense.spec.workload)
    mine = torch.rand(4)
    session("dense", dense.spec.workload)
    assert torch.equal(mine, torch.rand(4))
