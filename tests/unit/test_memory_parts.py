"""Memory by cause: parts counted by hand, adding up for every method, and the same every time."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from bench.accounting import StepAccount, account_step
from bench.measure.memory import MemoryMeter, allocated_bytes
from bench.memory_parts import StepMemory, peak_columns
from bench.method_registry import METHODS
from bench.schema import MEMORY_PARTS, TABLES
from bench.session import Session, build_session
from bench.study_file import study_spec

CPU = torch.device("cpu")


def linear_session(inputs: int, outputs: int, mask: Tensor | None = None) -> Session:
    """As much of a session as memory is attributed by: a linear map, SGD with momentum."""
    model = nn.Linear(inputs, outputs, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    method = SimpleNamespace(state_tensors=lambda: () if mask is None else (mask,))
    fake = SimpleNamespace(model=model, optimizer=optimizer, method=method, device=CPU)
    return cast(Session, fake)


def test_a_peak_made_of_gradients_by_hand() -> None:
    of = linear_session(256, 384, mask=torch.zeros(256 * 384, dtype=torch.bool))
    batch = (torch.randn(64, 256), torch.zeros(64, dtype=torch.long))
    memory = StepMemory(of, batch)
    with memory.meter:
        loss = of.model(batch[0]).sum()  # the sum saves nothing: 64 x 384 numbers come and go
        memory.mark("forward")
        loss.backward()
        memory.mark("backward")
        of.model.zero_grad(set_to_none=True)
    assert memory.meter.unregistered_bytes == 0
    assert memory.peak_parts == {
        "parameters": 4 * 256 * 384,
        "gradients": 4 * 256 * 384,
        "optimizer_state": 0,
        "method_state": 256 * 384,
        "batch": 4 * 64 * 256 + 512,
        "activations": 512,  # the loss
        "rest": 512,  # its gradient
    }


def test_a_peak_made_of_activations_by_hand() -> None:
    of = linear_session(128, 384)
    batch = (torch.randn(512, 128),)
    memory, numbers = StepMemory(of, batch), 4 * 512 * 384
    with memory.meter:
        loss = of.model(batch[0]).exp().sum()
        memory.mark("forward")
        loss.backward()  # the exponential was saved; its gradient is as large
        memory.mark("backward")
        of.optimizer.step()
        memory.mark("optimizer")
        of.model.zero_grad(set_to_none=True)
        memory.mark("optimizer")
    assert memory.peak_parts == {
        "parameters": 4 * 128 * 384,
        "gradients": 0,
        "optimizer_state": 0,
        "method_state": 0,
        "batch": 4 * 512 * 128,
        "activations": numbers + 512,
        "rest": numbers + 512,
    }
    left = memory.meter.current_allocated_bytes
    assert left == 2 * 4 * 128 * 384 + 4 * 512 * 128 + 512, "weights, momentum, batch, loss"


def test_activations_are_what_autograd_has_saved() -> None:
    torch.manual_seed(0)
    model, images = Block(48, 4, qkv_bias=True), torch.randn(3, 17, 48)
    known = {p.untyped_storage()._cdata for p in [*model.parameters(), images]}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            saved[storage._cdata] = allocated_bytes(storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = model(images).square().mean()
        total = sum(saved.values())
    del kept
    meter = MemoryMeter()
    meter.register([*model.parameters(), images], "known")
    before = meter.current_allocated_bytes
    with meter:
        loss = model(images).square().mean()
        alive = meter.current_allocated_bytes - before
    assert alive == total + allocated_bytes(loss.untyped_storage().nbytes())


def digits_session(method: str) -> Session:
    given = {"methods": method, "steps": 30, "batch_size": 4, "seeds": "0"}
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(spec, CPU)


def accounts_of(method: str) -> list[StepAccount]:
    """The first steps, until after the first one that updates the topology, if there is one."""
    of = digits_session(method)
    last = next((s for s in range(1, 30) if "update" in of.method.flags(s)), 2) + 1
    return [account_step(of, step) for step in range(1, last + 1)]


@pytest.mark.parametrize("method", METHODS)
def test_parts_add_up_for_every_method_and_are_the_same_again(method: str) -> None:
    accounts = accounts_of(method)
    for account in accounts:
        assert tuple(account.peak_parts) == MEMORY_PARTS
        assert sum(account.peak_parts.values()) == account.peak_allocated_bytes
    first, second = accounts[:2]
    assert first.peak_parts["parameters"] > 0
    assert bool(second.peak_parts["method_state"]) == (method not in ("dense", "static"))
    assert second.peak_parts["optimizer_state"] > 1.9 * second.peak_parts["parameters"]
    assert second.peak_parts["activations"] > 0
    assert [account.peak_parts for account in accounts_of(method)] == [
        account.peak_parts for account in accounts
    ]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_that_a_method_keeps_is_forgotten(method: str) -> None:
    of = digits_session(method)
    last = next((s for s in range(1, 30) if "update" in of.method.flags(s)), 1)
    for step in range(1, last + 1):
        batch = of.data.batch(step)
        memory = StepMemory(of, batch)
        with memory.meter:
            of.train_step(step, batch, _Marks(memory))
        assert memory.meter.unregistered_bytes == 0


class _Marks:
    def __init__(self, memory: StepMemory) -> None:
        self.mark = memory.mark

    def start_step(self) -> None:
        pass


def test_a_run_shows_the_kind_of_step_with_the_largest_peak() -> None:
    small, large = dict.fromkeys(MEMORY_PARTS, 1), dict.fromkeys(MEMORY_PARTS, 2)
    columns = peak_columns([small, large, large])
    assert set(columns.values()) == {2}
    assert set(columns) <= {column.name for column in TABLES["runs"]}
