"""Fake steps cost what real ones do, to the byte: every method, every kind of step, both models."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.accounting import StepAccount, account_step
from bench.method_registry import METHODS
from bench.predict.fake import HostReads, fake_session
from bench.predict.kinds import StepKind, step_kinds
from bench.predict.prediction import (
    DATA_DECIDE,
    Prediction,
    Unpredicted,
    account_fake_step,
    predict,
    reach,
)
from bench.run_spec import RunSpec
from bench.session import build_session
from bench.study_file import study_spec

CPU = torch.device("cpu")
STEPS = 60
SCORED: dict[str, int] = {"barter": 32, "barter-random-receiver": 32, "barter-random-donor": 32}
"""Images per step where scores, which a fake step does not have, decide who is resized: with so
many the peak is in the backward pass and not in the update. Elsewhere two images."""


@pytest.fixture(autouse=True)
def own_random_state() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def run_of(workload: str, method: str, batch_size: int, **given: object) -> RunSpec:
    asked = {
        "workload": workload,
        "methods": method,
        "density": "0.5",
        "seeds": "0",
        "steps": STEPS,
        "batch_size": batch_size,
        "device": "cpu",
    }
    (run,) = study_spec(None, asked | given).runs()
    return run


class Costs(NamedTuple):
    peak: int
    parts: dict[str, int]
    macs: object


def costs(account: StepAccount) -> Costs:
    assert sum(account.peak_parts.values()) == account.peak_allocated_bytes
    return Costs(account.peak_allocated_bytes, dict(account.peak_parts), account.macs)


@pytest.mark.parametrize("workload", ["vit-digits", "cct-digits"])
@pytest.mark.parametrize("method", METHODS)
def test_fake_and_real_steps_agree_to_the_byte(workload: str, method: str) -> None:
    run = run_of(workload, method, SCORED.get(method, 2))
    found = list(predict(run))
    assert found
    for prediction in found:
        assert isinstance(prediction, Prediction), prediction
        real = build_session(run, CPU)
        reach(real, prediction.kind.step)
        assert costs(prediction.account) == costs(account_step(real, prediction.kind.step))


def test_every_kind_of_step_is_there() -> None:
    named = {
        method: {p.kind.name for p in predict(run_of("vit-digits", method, 2)) if p.kind}
        for method in ("dense", "barter", "rigl", "s2vite")
    }
    assert named == {
        "dense": {"ordinary"},
        "barter": {"collecting", "ordinary", "collecting+update"},
        "rigl": {"ordinary", "update+dense_gradient"},
        "s2vite": {"dense_gradient", "collecting+update+dense_gradient"},
    }


def test_dense_steps_have_the_parameters_counted_by_hand() -> None:
    """Four tensors of Adam a parameter, gradient included, each in whole blocks of 512 bytes."""
    (dense,) = predict(run_of("vit-digits", "dense", 2))
    assert isinstance(dense, Prediction)
    model = build_session(run_of("vit-digits", "dense", 2), CPU).model
    sizes = [-(-4 * parameter.numel() // 512) * 512 for parameter in model.parameters()]
    parts = dense.account.peak_parts
    assert parts["parameters"] == sum(sizes)
    assert parts["optimizer_state"] == 2 * sum(sizes) + 512 * len(sizes)
    assert parts["batch"] == 2 * 3 * 32 * 32 * 4 + 512


def test_where_data_decide_shapes_the_reason_is_told() -> None:
    found = list(predict(run_of("vit-digits", "rigl:overhead=official", 2)))
    assert [type(p) for p in found] == [Unpredicted, Unpredicted]
    assert {p.reason for p in found if isinstance(p, Unpredicted)} == {DATA_DECIDE}


def test_a_density_that_a_method_cannot_have_is_told() -> None:
    (found,) = predict(run_of("vit-digits", "srigl", 2, density="0.01"))
    assert isinstance(found, Unpredicted)
    assert found.kind is None
    assert "at least 1 needs" in found.reason


def test_the_session_stays_as_it_was() -> None:
    session = build_session(run_of("vit-digits", "barter", 2), CPU)
    before = {name: tensor.clone() for name, tensor in session.model.state_dict().items()}
    first, _ = account_fake_step(session, 7)
    again, _ = account_fake_step(session, 7)
    assert first == again
    after = session.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not session.optimizer.state


def test_a_fake_session_shares_its_parameters_as_the_real_one_does() -> None:
    session = build_session(run_of("vit-digits", "rigl", 2), CPU)
    mode = FakeTensorMode()
    copy = fake_session(session, mode)
    parameters = set(map(id, copy.model.parameters()))
    assert {id(p) for group in copy.optimizer.param_groups for p in group["params"]} == parameters
    assert copy.method.optimizer is copy.optimizer
    assert parameters.isdisjoint(map(id, session.model.parameters()))
    with mode:
        images, _ = copy.batch(5)
    assert images.shape == (2, 3, 32, 32)


def test_whoever_reads_a_fake_tensor_gets_zeros() -> None:
    with FakeTensorMode(), HostReads():
        numbers = torch.ones(2, 3) + 1
        assert not bool((numbers > 0).any())
        assert float(numbers.sum()) == 0.0
        assert float(numbers.bfloat16().sum()) == 0.0
        assert isinstance(numbers.long().sum().item(), int)
        assert numbers.tolist() == [[0.0] * 3] * 2
        assert np.array_equal(numbers.double().numpy(), np.zeros((2, 3)))
        assert numbers.double().numpy().dtype == np.float64


def flags_of(update: int, last_collecting: int):
    def flags(step: int) -> tuple[str, ...]:
        return ("collecting",) * (step <= last_collecting) + ("update",) * (step == update)

    return flags


def test_kinds_of_step_avoid_the_first_step_and_those_after_updates() -> None:
    assert step_kinds(flags_of(update=5, last_collecting=5), 10) == [
        StepKind(("collecting",), 2),
        StepKind((), 7),  # 6 follows the update
        StepKind(("collecting", "update"), 5),
    ]


def test_kinds_that_have_no_better_step_take_what_there_is() -> None:
    assert step_kinds(flags_of(update=1, last_collecting=1), 2) == [
        StepKind((), 2),
        StepKind(("collecting", "update"), 1),
    ]
    assert [kind.name for kind in step_kinds(lambda _: (), 1)] == ["ordinary"]
