"""Checks of what goes on beside a step that need a real CUDA GPU; not part of the test suite.

    python tests/gpu/check_beside.py

Output and exit codes are those of `check_measure.py`. Takes about a minute.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from bench.accounting import account_step
from bench.measure.clock import make_clock
from bench.measure.disturbances import Disturbances
from bench.measure.memory import AllocatorPeak
from bench.measure.sampler import Sampler
from bench.session import build_session
from bench.study_file import study_spec
from tests.gpu.check_measure import MIB, Step, main


def check_sampler(device: torch.device) -> str:
    """Readings come, energy is counted, and the thread costs the steps no more than 1 %."""
    step, clock = Step(device, 64), make_clock(device)
    disturbances = Disturbances(device)

    def steps_ms(count: int) -> float:
        for _ in range(count):
            step.run(clock)
        times = [one.step_ms for one in clock.read()]
        return sum(times) / len(times)

    steps_ms(50)
    disturbances.start()
    watched, alone = [], []
    with Sampler(device.index, background=True) as sampler:
        for _ in range(8):  # in turns, so that warming up or drift is no difference
            alone.append(steps_ms(100))
            with sampler.timed():
                watched.append(steps_ms(100))
    seen = sampler.take()
    assert seen.fields["sm_clock"].readings, "no clock was read"
    cost = sum(watched) / sum(alone) - 1
    energy = "not counted" if seen.energy_j is None else f"{seen.energy_j / 800:.3f} J per step"
    line = (
        f"step {sum(alone) / 8:.3f} ms alone, {100 * cost:+.2f} % watched,"
        f" {seen.fields['sm_clock'].readings} readings, energy {energy},"
        f" codes {seen.codes()} {disturbances.codes()}"
    )
    assert cost < 0.01, line
    return line


def check_memory_parts(device: torch.device) -> str:
    """Parts of a real session's step; what the allocator holds besides is shown, not judged."""
    found = []
    for method in ("dense", "barter", "rigl"):
        given = {"methods": method, "steps": 30, "batch_size": 64, "seeds": "0"}
        (spec,) = replace(study_spec(None, given), device="cuda").runs()[:1]
        session, allocator = build_session(spec, device), AllocatorPeak(device)
        account_step(session, 1)
        allocator.reset()
        account = account_step(session, 2)
        peak, _ = allocator.read()
        parts = account.peak_parts
        assert sum(parts.values()) == account.peak_allocated_bytes <= peak, (parts, peak)
        shown = ", ".join(f"{part} {size / MIB:.2f}" for part, size in parts.items())
        outside = (peak - account.peak_allocated_bytes) / MIB
        found.append(f"{method}: {shown}; allocator {outside:+.2f} MiB")
    return "; ".join(found)


if __name__ == "__main__":
    sys.exit(main((check_sampler, check_memory_parts)))
