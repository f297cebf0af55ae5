"""Operators and host synchronisations, counted by hand first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from bench.measure.macs import MacCounter
from bench.measure.memory import MemoryMeter
from bench.measure.operations import OperationCounter

CPU = torch.device("cpu")


def test_a_linear_layer_forward_and_backward() -> None:
    layer, images = nn.Linear(3, 2), torch.ones(4, 3)
    with OperationCounter(CPU) as forward:
        loss = layer(images).sum()
    assert forward.operators == len(["t", "addmm", "sum"])
    with OperationCounter(CPU) as backward:
        loss.backward()
    sums = ["ones_like", "expand"]
    weight, bias = ["t", "mm", "t", "t", "detach"], ["sum", "view", "detach"]
    assert backward.operators == len(sums + weight + bias)
    assert forward.waits == backward.waits == []


READ = "_local_scalar_dense"
WAITING: dict[str, tuple[Callable[[Tensor, Tensor], Any], list[str]]] = {
    "item": (lambda x, m: x.sum().item(), [READ]),
    "if": (lambda x, m: 1 if m[0] else 0, [READ]),
    "float": (lambda x, m: float(x[0]), [READ]),
    "position": (lambda x, m: x[x[1].long()], [READ]),
    "full": (lambda x, m: x.new_full((2,), x[0]), [READ]),  # pyright: ignore[reportArgumentType]
    "mask read": (lambda x, m: x[m], ["index"]),
    "bytes read": (lambda x, m: x[m.byte()], ["index"]),
    "mask written": (lambda x, m: x.__setitem__(m, 0.0), ["index_put_"]),
    "two masks": (lambda x, m: x.view(2, 2)[m[:2], m[:2]], ["index", "index"]),
    "index_put_": (lambda x, m: x.index_put_((m,), torch.ones(())), ["index_put_"]),
    "nonzero": (lambda x, m: m.nonzero(), ["nonzero"]),
    "where": (lambda x, m: torch.where(m), ["nonzero"]),
    "masked_select": (lambda x, m: x.masked_select(m), ["masked_select"]),
    "unique": (lambda x, m: x.unique(), ["_unique2"]),
    "bincount": (lambda x, m: x.long().bincount(), ["bincount"]),
    "equal": (lambda x, m: torch.equal(x, x), ["equal"]),
    "allclose": (lambda x, m: torch.allclose(x, x), ["allclose"]),
    "repeats": (lambda x, m: torch.repeat_interleave(x.long()), ["repeat_interleave"]),
    "cpu": (lambda x, m: x.cpu(), ["cpu"]),
    "to the host": (lambda x, m: x.to("cpu"), ["to"]),
    "tolist": (lambda x, m: x.tolist(), ["tolist"]),
    "numpy": (lambda x, m: x.numpy(), ["numpy"]),
    "asarray": (lambda x, m: np.asarray(x), ["__array__"]),
    "copy to the host": (lambda x, m: torch.empty(4).copy_(x), ["copy_"]),
    "copy to the device": (lambda x, m: x.copy_(torch.ones(4)), ["copy_"]),
    "moved to the device": (lambda x, m: torch.ones(4).to(x.device), ["to"]),
    "numbers": (lambda x, m: torch.tensor([1, 2], device=x.device), ["tensor"]),
    "like": (lambda x, m: x.new_tensor([1.0]), ["new_tensor"]),
    "numbers read": (lambda x, m: torch.tensor([x[0], x[1]]), ["tensor", "tensor"]),
    "one copy, then the host's": (lambda x, m: x.cpu().numpy().tolist(), ["cpu"]),
    "read of a copy": (lambda x, m: x.cpu()[0].item(), ["cpu"]),
    "computed on the host": (lambda x, m: (x.cpu() * 2 + 1).sum().item(), ["cpu"]),
    "to the host and back": (lambda x, m: x.cpu().to(x.device).sum().item(), ["cpu", "to", READ]),
    "twice": (lambda x, m: (x.cpu(), x.cpu()), ["cpu", "cpu"]),
}
NOT_WAITING: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "positions": lambda x, m: x[m.long()],
    "positions written": lambda x, m: x.index_put_((m.long(),), x + 1),
    "mask multiplied": lambda x, m: x.mul_(m),
    "masked_fill": lambda x, m: x.masked_fill_(m, 0.0),
    "where": lambda x, m: torch.where(m, x, 0.0),
    "slices": lambda x, m: x[1:3][None],
    "sort": lambda x, m: x.sort().values.topk(2),
    "repeats": lambda x, m: torch.repeat_interleave(x.long(), output_size=6),
    "made on the device": lambda x, m: torch.zeros(4, device=x.device).add_(x),
    "moved where it is": lambda x, m: x.to(x.device, torch.float64).to(x),
    "without blocking": lambda x, m: torch.ones(4).to(x.device, non_blocking=True),
    "the host's own": lambda x, m: torch.tensor([1.0, 2.0]).sum().item(),
    "numpy's": lambda x, m: bool(torch.as_tensor(np.ones(3))[0]),
    "the host's mask": lambda x, m: torch.arange(3)[torch.tensor([True, False, True])],
}


def device_tensors() -> tuple[Tensor, Tensor]:
    values = torch.tensor([0.0, 1.0, 2.0, 3.0])
    return values, values > 1


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("case", WAITING)
def test_what_waits(case: str) -> None:
    program, waits = WAITING[case]
    values, mask = device_tensors()
    with OperationCounter(CPU) as counter:
        program(values, mask)
    assert counter.waits == waits
    assert counter.host_synchronisations == len(waits)


@pytest.mark.parametrize("case", NOT_WAITING)
def test_what_does_not_wait(case: str) -> None:
    values, mask = device_tensors()
    with OperationCounter(CPU) as counter:
        NOT_WAITING[case](values, mask)
    assert counter.waits == []


def test_a_copy_to_the_host_leaves_the_tensor_on_the_device() -> None:
    values, _ = device_tensors()
    with OperationCounter(CPU) as counter:
        copied = values.cpu()
        copied.add_(1)
        values.sum().item()
    assert values.tolist() == [0, 1, 2, 3]
    assert counter.waits == ["cpu", READ]
    assert counter.operators == len(["copy", "add_", "sum", READ])


def test_a_read_in_a_backward_hook_counts() -> None:
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda gradient: gradient.sum().item() and None)
    with OperationCounter(CPU) as counter:
        weight.sum().backward()
    assert counter.waits == [READ]


@pytest.mark.parametrize(
    ("options", "operators"),
    [
        ({"fused": True}, ["_foreach_add_", "_fused_adam_"]),
        # 1.0 as a tensor; steps; first moments; second moments (2); step counters of two
        # parameters, read for each beta; root; bias correction; epsilon; the update.
        (
            {"foreach": True},
            [
                "lift_fresh",
                "add",
                "lerp",
                "mul",
                "addcmul",
                *[READ] * 4,
                "sqrt",
                "div",
                "add",
                "div",
            ],
        ),
        (
            {"foreach": False},
            ["add", "lerp", "mul", "addcmul", READ, "sqrt", "div", "add", "div"] * 2,
        ),
    ],
    ids=["fused", "foreach", "single"],
)
def test_adam_never_waits(options: dict[str, Any], operators: list[str]) -> None:
    parameters = list(nn.Linear(3, 2).parameters())
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam(parameters, **options)
    optimizer.step()
    steps = [state["step"] for state in optimizer.state.values()]
    with OperationCounter(CPU, host_tensors=steps) as counter:
        optimizer.step()
    assert counter.operators == len(operators)
    assert counter.waits == []


def test_a_gpus_tensors_say_where_they_are() -> None:
    with FakeTensorMode():
        values, host = torch.empty(4, device="cuda"), torch.empty(4)
        with OperationCounter(values.device) as counter:
            copied = values.cpu()
            copied.add_(1).cpu()
            values.to("cpu", non_blocking=True)
            values.copy_(host, non_blocking=True)
            values.to(torch.float64).copy_(values)
        assert counter.waits == ["_to_copy"]
        with OperationCounter(values.device) as counter:
            values.copy_(host)
            host.to("cuda")
            torch.tensor([1.0], device="cuda")
            host.index_put_((host > 0,), host[0])
            with pytest.raises(DataDependentOutputException):
                values.sum().item()
    assert counter.waits == ["copy_", "_to_copy", "_to_copy", READ]


def test_lists_from_a_device_are_one_copy() -> None:
    values = torch.empty(4, device="meta")
    with OperationCounter(values.device) as counter, pytest.raises(NotImplementedError):
        values.tolist()
    assert (counter.waits, counter.operators) == (["_to_copy"], 1)


def program() -> None:
    layer, images = nn.Linear(8, 4), torch.ones(2, 8)
    loss = layer(images)[torch.ones(2, device=CPU).bool()].sum()
    loss.backward()
    (loss.detach().cpu() + 1).item()


def test_other_counters_change_nothing() -> None:
    with OperationCounter(CPU) as alone:
        program()
    with MemoryMeter() as meter, MacCounter() as macs:
        program()
    with (
        MemoryMeter() as nested_meter,
        MacCounter() as nested_macs,
        OperationCounter(CPU) as nested,
    ):
        program()
    with OperationCounter(CPU) as outer, MemoryMeter(), MacCounter():
        program()
    assert nested.operators == outer.operators == alone.operators
    assert nested.waits == outer.waits == alone.waits
    assert alone.waits == ["index", "index_put", "cpu"]  # a gradient by mask waits as well
    assert nested_macs.count == macs.count
    assert nested_meter.peak_allocated_bytes == meter.peak_allocated_bytes


def test_an_exception_leaves_nothing_switched_on() -> None:
    values, _ = device_tensors()
    with pytest.raises(KeyError), OperationCounter(CPU) as counter:
        raise KeyError
    values.sum().item()
    assert (counter.operators, counter.waits) == (0, [])
