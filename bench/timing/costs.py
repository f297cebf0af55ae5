"""What a step of every segment costs apart from time, and what that makes of a whole run."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench.accounting import StepAccount, account_step
from bench.measure.clock import make_clock
from bench.measure.memory import AllocatorPeak
from bench.memory_parts import peak_columns
from bench.records import ideal_step_macs
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.timing.replay import Replayer
from bench.timing.segments import Segment, mean_step


@dataclass(frozen=True)
class SegmentCost:
    """One step of a segment; of update windows, the update step."""

    part: Segment
    account: StepAccount
    ideal_training_macs: int
    active_parameters: int
    """After the step."""
    peak_allocated_bytes: int
    """The allocator's own where the device has one, accounted elsewhere."""
    peak_reserved_bytes: int | None

    @property
    def row(self) -> Row:
        """Of the table of segments."""
        part = self.part
        return {
            "segment": part.name,
            "share": part.share,
            "window_steps": part.length if part.is_window else None,
            "base": list(part.base),
            "final_widths": part.final_widths,
            "training_macs": self.account.macs.training,
            "ideal_training_macs": self.ideal_training_macs,
            "dispatched_operators": self.account.operators,
            "host_synchronisations": self.account.host_synchronisations,
            "peak_allocated_bytes": self.peak_allocated_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            **peak_columns([self.account.peak_parts]),
        }


def segment_cost(replayer: Replayer, part: Segment) -> SegmentCost:
    """Replay one step of the segment under all counters, and on CUDA once more under none."""
    session, step = replayer.session, replayer.prepare(part)
    method = session.method
    ideal = ideal_step_macs(
        session.spec, method.topology(), method.active_parameters(), method.flags(step)
    )
    account = account_step(session, step)
    active = method.active_parameters()
    cuda = session.device.type == "cuda"
    peak = _allocator_peak(replayer, part) if cuda else (account.peak_allocated_bytes, None)
    return SegmentCost(part, account, ideal, active, *peak)


def run_costs(spec: RunSpec, costs: Sequence[SegmentCost]) -> Row:
    """Columns of the run: its peaks are the largest of any kind of step, its MACs those of the
    whole schedule."""
    parts = [cost.part for cost in costs]
    last = max(
        (cost for cost in costs if not cost.part.is_window),
        key=lambda cost: (cost.part.final_widths, cost.part.share),
    ).account.macs
    executed = {cost.part.name: float(cost.account.macs.training) for cost in costs}
    ideal = {cost.part.name: float(cost.ideal_training_macs) for cost in costs}
    reserved = [cost.peak_reserved_bytes for cost in costs if cost.peak_reserved_bytes]
    return {
        "macs_forward_per_image": last.forward // spec.batch_size,
        "macs_backward_per_image": last.backward // spec.batch_size,
        "macs_recomputed_per_image": last.recomputed // spec.batch_size,
        "training_macs_total": spec.total_steps * mean_step(parts, executed),
        "ideal_training_macs_total": spec.total_steps * mean_step(parts, ideal),
        "peak_allocated_bytes": max(cost.peak_allocated_bytes for cost in costs),
        "peak_reserved_bytes": max(reserved, default=None),
        **peak_columns(cost.account.peak_parts for cost in costs),
    }


def _allocator_peak(replayer: Replayer, part: Segment) -> tuple[int, int]:
    """Peak bytes allocated, without the saved states that a run does not have, and reserved."""
    session = replayer.session
    step = replayer.prepare(part)
    if session.pieces.is_recording:  # a step of a run mostly finds its graphs recorded
        replayer.record_before(part, step)
    batch = session.data.batch(step)
    allocator, clock = AllocatorPeak(session.device), make_clock(session.device)
    torch.cuda.empty_cache()  # what counting left reserved is no need of the step
    allocator.reset()
    session.train_step(step, batch, clock)
    clock.read()
    allocated, reserved = allocator.read()
    return allocated - replayer.saved_bytes, reserved
