"""MemoryMeter: lifetimes counted by hand, fake against real tensors, and torch's own allocator."""

import gc
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.measure.macs import MacCounter
from bench.measure.memory import REST, AllocatorPeak, MemoryMeter, allocated_bytes


@pytest.fixture(autouse=True, scope="module")
def small_heap():
    """The meter collects garbage when it starts: spare it the objects of every import."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def blocks(count: int) -> Tensor:
    """A tensor of exactly `count` blocks of 512 bytes."""
    return torch.zeros(count * 128)


@pytest.mark.parametrize(
    ("requested", "expected"), [(0, 0), (1, 512), (512, 512), (513, 1024), (5120, 5120)]
)
def test_sizes_are_whole_blocks(requested, expected):
    assert allocated_bytes(requested) == expected


def test_a_chain_counted_by_hand():
    with MemoryMeter() as meter:
        a = blocks(10)
        b = a * 2
        assert meter.current_allocated_bytes == 20 * 512
        c = b[:128] + 1  # 1 block, while 20 live: the peak
        del a, b
        assert meter.current_allocated_bytes == 512
        d = c + blocks(5)[:128]  # 5 + 1 more, the 5 die at once
    assert meter.current_allocated_bytes == 2 * 512
    assert meter.peak_allocated_bytes == 21 * 512
    assert meter.at_peak == {REST: 21 * 512}
    del c, d
    assert meter.current_allocated_bytes == 0
    assert meter.peak_allocated_bytes == 21 * 512


def test_views_and_in_place_operators_cost_nothing():
    with MemoryMeter() as meter:
        a = blocks(4)
        views = [a.view(2, -1), a[3:], a.t(), a.detach(), a.add_(1).relu_()]
    assert meter.peak_allocated_bytes == 4 * 512
    del a
    assert meter.current_allocated_bytes == 4 * 512, "a view keeps its whole storage alive"
    views.clear()
    assert meter.current_allocated_bytes == 0


def test_small_storages_are_rounded_one_by_one():
    with MemoryMeter() as meter:
        keep = [torch.zeros(3) for _ in range(7)]
    assert meter.peak_allocated_bytes == 7 * 512
    del keep


def test_the_baseline_counts_each_storage_once():
    weight = blocks(3)
    meter = MemoryMeter()
    meter.register([weight, weight.view(3, -1), weight.detach()], "parameters")
    meter.register([blocks(9)], "batch")  # dies at once
    assert meter.current_allocated_bytes == 3 * 512
    assert meter.peak_allocated_bytes == 12 * 512
    assert meter.at_peak == {"parameters": 3 * 512, "batch": 9 * 512}


def test_causes_given_after_the_step_hold_at_the_peak_before_it():
    weight = blocks(2).requires_grad_()
    meter = MemoryMeter()
    meter.register([weight], "parameters")
    with meter:
        (weight * 3).sum().backward()
    gradient = weight.grad
    assert gradient is not None
    before = meter.at_peak
    meter.register([gradient], "gradients")
    assert set(before) == {"parameters", REST}
    assert meter.at_peak["gradients"] == 2 * 512
    assert meter.at_peak["parameters"] == 2 * 512
    assert sum(meter.at_peak.values()) == sum(before.values()) == meter.peak_allocated_bytes
    meter.register([gradient], "method_state")
    assert "gradients" not in meter.at_peak


def test_the_peak_is_the_first_of_equals_and_knows_who_was_alive_then():
    with MemoryMeter() as meter:
        first = blocks(5)
        meter.register([first], "first")
        del first
        second = blocks(5)
        meter.register([second], "second")
    assert meter.at_peak == {"first": 5 * 512}


def test_resizes_are_followed():
    a = blocks(2)
    meter = MemoryMeter()
    meter.register([a], "batch")
    with meter:
        a.resize_(8 * 128)
        assert meter.current_allocated_bytes == 8 * 512
        a.untyped_storage().resize_(512)  # past the dispatcher: noticed at the next use
        a.detach()
    assert meter.current_allocated_bytes == 512
    assert meter.peak_allocated_bytes == 8 * 512
    assert meter.at_peak == {"batch": 8 * 512}


def test_an_incomplete_baseline_shows():
    known, forgotten = blocks(1), blocks(7)
    meter = MemoryMeter()
    meter.register([known], "parameters")
    with meter:
        result = known + forgotten[:128]
        forgotten.mul_(2)
    assert meter.unregistered_bytes == 7 * 512
    assert meter.peak_allocated_bytes == 2 * 512
    meter.register([forgotten], "method_state")
    assert meter.current_allocated_bytes == 9 * 512
    del result


def test_new_tensors_from_python_numbers_are_no_strangers():
    with MemoryMeter() as meter:
        keep = torch.tensor([1.0, 2.0]) + torch.tensor(3.0)
    assert meter.unregistered_bytes == 0
    assert meter.current_allocated_bytes == 512
    del keep


def test_only_the_asked_device_counts():
    with FakeTensorMode(), MemoryMeter(torch.device("cuda")) as any_cuda:
        on_device = torch.empty(256, device="cuda:0")
        on_host = torch.empty(1000)
    assert any_cuda.peak_allocated_bytes == 2 * 512
    one, other = (MemoryMeter(torch.device("cuda", i)) for i in (0, 1))
    host, everything = MemoryMeter(torch.device("cpu")), MemoryMeter()
    for meter in (one, other, host, everything):
        meter.register([on_device, on_host, torch.empty(1000, device="meta")], "batch")
    got = [meter.current_allocated_bytes for meter in (one, other, host, everything)]
    assert got == [2 * 512, 0, 8 * 512, 10 * 512]


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_tensors_count_their_parts():
    offsets, columns, values = torch.arange(201), torch.arange(200), torch.ones(200)
    meter = MemoryMeter()
    meter.register([values], "parameters")
    sparse = torch.sparse_csr_tensor(offsets, columns, values, (200, 200), check_invariants=True)
    meter.register([sparse, torch.eye(200).to_sparse_coo()], "parameters")
    by_hand = allocated_bytes(201 * 8) + allocated_bytes(200 * 8) + allocated_bytes(200 * 4)
    assert meter.current_allocated_bytes == by_hand
    # Coordinates are two rows of 200; the sparse tensor itself died at once.
    coordinates = allocated_bytes(2 * 200 * 8) + allocated_bytes(200 * 4)
    assert meter.peak_allocated_bytes == by_hand + coordinates


def test_cyclic_garbage_stays_until_collected_and_collection_resumes():
    with MemoryMeter() as meter:
        assert not gc.isenabled()
        cycle: list[object] = [blocks(4)]
        cycle.append(cycle)
        del cycle
        assert meter.current_allocated_bytes == 4 * 512
        gc.collect()
        assert meter.current_allocated_bytes == 0
    assert gc.isenabled()


def test_an_exception_leaves_nothing_switched_on():
    meter = MemoryMeter()
    with pytest.raises(KeyError), meter:
        raise KeyError
    assert gc.isenabled()
    blocks(3)
    assert meter.peak_allocated_bytes == 0


programs = st.lists(
    st.one_of(
        st.tuples(st.just("make"), st.integers(0, 2000)),
        st.tuples(st.sampled_from(["view", "free", "double"]), st.integers(0, 5)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(programs)
def test_a_random_program_against_a_plain_simulation(program):
    tensors: list[Tensor] = []
    owners: list[int] = []  # for each tensor the number of its storage
    sizes: list[int] = []
    peak = 0
    with MemoryMeter() as meter:
        for action, number in program:
            position = number % len(tensors) if tensors else None
            if action == "make":
                tensors.append(torch.empty(number, dtype=torch.uint8))
                owners.append(len(sizes))
                sizes.append(number)
            elif position is None:
                continue
            elif action == "view":
                tensors.append(tensors[position].view(-1))
                owners.append(owners[position])
            elif action == "free":
                del tensors[position], owners[position]
            else:
                tensors.append(tensors[position] * 2)
                owners.append(len(sizes))
                sizes.append(sizes[owners[position]])
            alive = sum((sizes[owner] + 511) // 512 * 512 for owner in set(owners))
            peak = max(peak, alive)
            assert meter.current_allocated_bytes == alive
    assert meter.peak_allocated_bytes == peak
    assert sum(meter.at_peak.values()) == peak


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    layers = nn.Sequential(nn.Linear(37, 101), nn.GELU(), nn.LayerNorm(101), nn.Linear(101, 13))
    return layers, (29, 37)


def block() -> tuple[nn.Module, tuple[int, ...]]:
    return Block(48, 4, qkv_bias=True), (3, 17, 48)


def explicit_block() -> tuple[nn.Module, tuple[int, ...]]:
    module = Block(48, 4, qkv_bias=True)
    module.attn.fused_attn = False  # type: ignore[misc, assignment]
    return module, (3, 17, 48)


class Figures(NamedTuple):
    peak: int
    left: int
    at_peak: dict[str, int]


def metered_step(build) -> Figures:
    model, shape = build()
    images = torch.randn(shape)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    meter = MemoryMeter()
    meter.register(model.parameters(), "parameters")
    meter.register([images], "batch")
    with meter:
        model(images).square().mean().backward()
        optimizer.step()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    meter.register(gradients, "gradients")
    for state in optimizer.state.values():
        meter.register(state.values(), "optimizer_state")
    assert meter.unregistered_bytes == 0
    return Figures(meter.peak_allocated_bytes, meter.current_allocated_bytes, meter.at_peak)


@pytest.mark.parametrize("build", [mlp, block, explicit_block])
def test_two_passes_and_fake_tensors_agree_to_the_byte(build):
    real = metered_step(build)
    assert metered_step(build) == real
    with FakeTensorMode():
        assert metered_step(build) == real
    assert real.peak > 4 * real.at_peak["parameters"]
    assert sum(real.at_peak.values()) == real.peak


def test_a_step_leaves_exactly_what_it_must():
    step = metered_step(mlp)
    sizes = [37 * 101, 101, 101, 101, 101 * 13, 13]
    parameters = sum(allocated_bytes(4 * size) for size in sizes)
    batch, counters = allocated_bytes(4 * 29 * 37), len(sizes) * 512
    # Parameters, gradients, two moments each, and Adam's step counters.
    assert step.left == 4 * parameters + counters + batch
    assert step.at_peak["gradients"] == step.at_peak["parameters"] == parameters


@pytest.mark.parametrize("build", [mlp, block])
def test_the_peak_is_the_one_that_the_allocator_of_the_cpu_reports(build):
    """torch's profiler records each allocation on CPU, those within an operator too."""
    model, shape = build()
    images = torch.randn(shape)
    meter = MemoryMeter()
    meter.register([*model.parameters(), images], "baseline")
    baseline = meter.current_allocated_bytes
    with meter:
        model(images).square().mean().backward()
    left = meter.current_allocated_bytes
    model.zero_grad()
    gc.collect()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        model(images).square().mean().backward()
    recorded: list[Any] = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    events = [event for event in recorded if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    current = peak = 0
    for event in events:
        size = allocated_bytes(abs(event.nbytes()))
        current += size if event.nbytes() > 0 else -size
        peak = max(peak, current)
    assert left == baseline + current
    # The workspace of a reduction may come on top; a missed or invented tensor would be more.
    assert 0 <= baseline + peak - meter.peak_allocated_bytes <= 2048


def test_the_meter_and_the_mac_counter_work_together():
    layer = nn.Linear(128, 4, bias=False)
    with MacCounter() as counter, MemoryMeter() as meter:
        result = layer(blocks(1))
    assert counter.count.forward == 512
    # The result, and the input, which the backward pass will need.
    assert meter.current_allocated_bytes == 2 * 512
    assert result.shape == (4,)


def test_allocator_peak_asks_for_its_device_and_never_waits(monkeypatch):
    calls: list[tuple[str, torch.device]] = []

    def answer(name, value):
        return lambda device: calls.append((name, device)) or value

    def refuse(*_):
        raise AssertionError("synchronised")

    monkeypatch.setattr(torch.cuda, "synchronize", refuse)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", answer("reset", None))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", answer("allocated", 11))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", answer("reserved", 22))
    device = torch.device("cuda:1")
    peak = AllocatorPeak(device)
    peak.reset()
    assert peak.read() == (11, 22)
    assert calls == [("reset", device), ("allocated", device), ("reserved", device)]
