"""What a contender costs apart from time, and where its updates lead: found once, before launches.

Counting slows a step down many times, so none of it happens in a process that is timed.
"""

import gc
from io import BytesIO
from typing import Any

import torch

from bench.accounting import StepAccount, account_step
from bench.measure import environment
from bench.measure.clock import make_clock
from bench.measure.memory import AllocatorPeak
from bench.records import environment_columns, method_facts
from bench.run_rows import Row
from bench.session import Session, build_session
from bench.spec import RunSpec
from bench.timing.bare_loop import VERSION as BARE_VERSION
from bench.timing.messages import Scouted
from bench.timing.replay import MethodState, Replayer
from bench.timing.segments import UPDATE, Segment

_IMAGES = 4
"""Images per step of the walk to the final topology."""


def scouted(spec: RunSpec, device: torch.device) -> Scouted:
    """Needs no longer than the walk through the schedule's updates, a short step each."""
    session = build_session(spec, device)
    facts = method_facts(session)
    active = session.method.active_parameters()
    exported = session.method.export(session.model)
    stored = sum(parameter.numel() for parameter in exported.parameters())
    final = final_state(session.uncompiled())
    del session, exported
    gc.collect()
    replayer = Replayer(build_session(spec, device), final)
    rows = tuple(_segment_row(replayer, part) for part in replayer.segments)
    return Scouted(
        pack(final),
        {
            **facts,
            **environment_columns(environment.collect(device).to_dict()),
            "bare_version": BARE_VERSION,
            "active_parameters": active,
            "stored_parameters": stored,
            "peak_allocated_bytes": max(row["peak_allocated_bytes"] for row in rows),
            "peak_reserved_bytes": max(row["peak_reserved_bytes"] or 0 for row in rows) or None,
            "memory_source": "allocator" if device.type == "cuda" else "accounted",
        },
        rows,
        replayer.segments,
    )


def final_state(session: Session) -> MethodState | None:
    """Walk through all updates of the schedule, a step each, and return the method's state there;
    None where tensors keep their shapes. Consumes the session."""
    method = session.method
    if not method.is_dynamic or method.realisation != "compact":
        return None
    clock = make_clock(session.device)
    for step in range(1, session.spec.total_steps + 1):
        if UPDATE in method.flags(step):
            method.after_step(step - 1)
            images, targets = session.data.batch(step)
            session.train_step(step, (images[:_IMAGES], targets[:_IMAGES]), clock)
            clock.read()
    return method.state_dict()


def pack(state: MethodState | None) -> bytes | None:
    """So that whoever passes it on need not know tensors."""
    if state is None:
        return None
    buffer = BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(packed: bytes | None) -> MethodState | None:
    return None if packed is None else torch.load(BytesIO(packed), weights_only=True)


def _segment_row(replayer: Replayer, part: Segment) -> Row:
    step = replayer.prepare(part)
    account = account_step(replayer.session, step)
    peak, reserved = _peak(replayer, part, account)
    return {
        "segment": part.name,
        "share": part.share,
        "window_steps": part.length if part.is_window else None,
        "base": list(part.base),
        "final_widths": part.final_widths,
        "training_macs": account.macs.training,
        "dispatched_operators": account.operators,
        "host_synchronisations": account.host_synchronisations,
        "peak_allocated_bytes": peak,
        "peak_reserved_bytes": reserved,
    }


def _peak(replayer: Replayer, part: Segment, account: StepAccount) -> tuple[int, int | None]:
    """The allocator's own peak where the device has one; bytes of live tensors elsewhere."""
    session: Any = replayer.session
    if session.device.type != "cuda":
        return account.peak_allocated_bytes, None
    step = replayer.prepare(part)
    batch = session.data.batch(step)
    allocator, clock = AllocatorPeak(session.device), make_clock(session.device)
    allocator.reset()
    session.train_step(step, batch, clock)
    clock.read()
    return allocator.read()
