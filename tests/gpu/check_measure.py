"""Checks of the measuring code that need a real CUDA GPU; not part of the test suite.

    python tests/gpu/check_measure.py

Prints one line per check. Exit code 0 if all hold, 1 if one fails, 2 without a GPU. Takes about a
minute and 3 GiB of GPU memory.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.measure import environment, telemetry
from bench.measure.clock import Clock, make_clock
from bench.measure.devices import resolve
from bench.measure.doctor import checks
from bench.measure.macs import MacCount, UnknownOperatorError, count_training_macs
from bench.measure.memory import AllocatorPeak, MemoryMeter

FORWARD, TRAINING, RECOMPUTED = 189_503_616, 566_151_552, 7_300_800
MIB = 2**20


class Step:
    """A training step of the published ViT with fused Adam, on resident random images."""

    def __init__(self, device: torch.device, batch_size: int) -> None:
        torch.manual_seed(0)
        self.model = VisionTransformer(
            img_size=64,
            patch_size=8,
            embed_dim=192,
            depth=9,
            num_heads=12,
            mlp_ratio=2,
            qkv_bias=True,
            num_classes=100,
        ).to(device)
        self.images = torch.randn(batch_size, 3, 64, 64, device=device)
        self.labels = torch.randint(100, (batch_size,), device=device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)

    def loss(self) -> Tensor:
        return nn.functional.cross_entropy(self.model(self.images), self.labels)

    def run(self, clock: Clock | None = None) -> None:
        mark: Callable[[str], None] = clock.mark if clock else lambda _: None
        if clock:
            clock.start_step()
        loss = self.loss()
        mark("forward")
        loss.backward()
        mark("backward")
        self.optimizer.step()
        self.optimizer.zero_grad()
        mark("optimizer")


def check_events(device: torch.device) -> str:
    """Events and the host's clock must agree on work that keeps the GPU busy."""
    clock = make_clock(device)
    matrix = torch.randn(8192, 8192, device=device)
    torch.mm(matrix, matrix)
    torch.cuda.synchronize()
    started = time.perf_counter()
    clock.start_step()
    for _ in range(20):
        torch.mm(matrix, matrix)
    clock.mark("forward")
    queued_ms = (time.perf_counter() - started) * 1e3
    (step,) = clock.read()
    wall_ms = (time.perf_counter() - started) * 1e3
    assert 0.8 * wall_ms <= step.step_ms <= 1.02 * wall_ms, (step.step_ms, wall_ms)
    assert queued_ms < 0.5 * wall_ms, "recording waited for the device"
    return f"events {step.step_ms:.2f} ms, wall {wall_ms:.2f} ms, queued in {queued_ms:.2f} ms"


@contextmanager
def synchronisation_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def check_no_synchronisation(device: torch.device) -> str:
    step, clock, allocator = Step(device, 64), make_clock(device), AllocatorPeak(device)
    step.run(clock)
    clock.read()
    with synchronisation_is_an_error():
        for _ in range(5):
            allocator.reset()
            step.run(clock)
            allocator.read()
    times = clock.read()
    assert len(times) == 5
    for one in times:
        assert set(one.spans) == {"forward", "backward", "optimizer"}
        assert abs(sum(one.spans.values()) - one.step_ms) < 0.01
    return "5 steps with allocator peaks, " + ", ".join(f"{one.step_ms:.2f}" for one in times)


def check_macs(device: torch.device) -> str:
    step, found = Step(device, 1), []
    for backend in (
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.MATH,
    ):
        half = backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)
        precision = torch.autocast(device.type, torch.bfloat16) if half else nullcontext()
        try:
            with sdpa_kernel(backend), precision:
                count = count_training_macs(step.loss)
        except UnknownOperatorError:
            raise
        except RuntimeError as error:
            found.append(f"{backend.name} not available ({str(error).splitlines()[0]})")
            continue
        repeated = 0 if backend == SDPBackend.MATH else RECOMPUTED
        assert count == MacCount(FORWARD, TRAINING - FORWARD, repeated), (backend.name, count)
        found.append(backend.name)
    assert any("not available" not in one for one in found)
    return f"{TRAINING:,} MACs with " + ", ".join(found)


def check_memory(device: torch.device) -> str:
    """The allocator may hold workspaces on top, of cuBLAS for example; no tensor may be missing."""
    step, allocator = Step(device, 256), AllocatorPeak(device)
    step.run()
    meter = MemoryMeter(device)
    meter.register([*step.model.parameters(), *step.model.buffers()], "parameters")
    meter.register([step.images, step.labels], "batch")
    for state in step.optimizer.state.values():
        meter.register((value for value in state.values() if isinstance(value, Tensor)), "state")
    outside = torch.cuda.memory_allocated(device) - meter.current_allocated_bytes
    allocator.reset()
    step.run()
    allocated, reserved = allocator.read()
    with meter:
        step.run()
    assert meter.unregistered_bytes == 0, meter.unregistered_bytes
    difference = allocated - outside - meter.peak_allocated_bytes
    assert abs(difference) < 0.05 * allocated, (allocated, outside, meter.peak_allocated_bytes)
    causes = ", ".join(f"{cause} {size / MIB:.1f}" for cause, size in meter.at_peak.items())
    return (
        f"allocator {allocated / MIB:.1f} MiB (reserved {reserved / MIB:.1f}), of which outside the"
        f" step's tensors {outside / MIB:.1f}; meter {meter.peak_allocated_bytes / MIB:.1f}"
        f" ({causes}); difference {difference / MIB:.3f}"
    )


def check_devices(device: torch.device) -> str:
    name = torch.cuda.get_device_name(device)
    resolved = resolve("cuda", name)
    assert resolved.index is not None
    assert resolved.name == name == environment.device_name(device)
    properties = torch.cuda.get_device_properties(resolved.index)
    assert resolved.uuid == f"GPU-{properties.uuid}", (resolved.uuid, properties.uuid)
    found = environment.collect(device)
    assert found.driver
    assert {check.name: check.status for check in checks()}["CUDA events"] == "yes"
    return f"{resolved.name}, driver {found.driver}, CUDA {found.cuda_runtime}"


def check_telemetry(device: torch.device) -> str:
    readings = {reading.field: reading for reading in telemetry.sample(device.index)}
    total = readings["memory_total"].value
    assert total is not None
    assert abs(total / torch.cuda.get_device_properties(device).total_memory - 1) < 0.1
    shown = (
        reading.status if reading.value is None else f"{reading.value:g} {reading.unit}"
        for reading in readings.values()
    )
    return ", ".join(f"{field} {value}" for field, value in zip(readings, shown, strict=True))


CHECKS = (
    check_devices,
    check_events,
    check_no_synchronisation,
    check_macs,
    check_memory,
    check_telemetry,
)


def main(checks: Sequence[Callable[[torch.device], str]] = CHECKS) -> int:
    if not torch.cuda.is_available():
        print("no CUDA GPU here: nothing was checked")
        return 2
    device, failed = torch.device("cuda", 0), 0
    for check in checks:
        try:
            print(f"ok      {check.__name__}: {check(device)}")
        except Exception as error:  # the next check may still tell something
            failed += 1
            print(f"FAILED  {check.__name__}: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
