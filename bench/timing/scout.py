"""What a contender costs apart from time, and where its updates lead: found once, before launches.

Counting slows a step down many times, so none of it happens in a process that is timed.
"""

import gc
from collections.abc import Sequence
from io import BytesIO

import torch

from bench.measure import environment
from bench.measure.clock import make_clock
from bench.reason_codes import BUDGET_BROKEN
from bench.records import environment_columns, method_facts
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.session import Session, build_session
from bench.timing.bare_loop import VERSION as BARE_VERSION
from bench.timing.costs import run_costs, segment_cost
from bench.timing.messages import Scouted
from bench.timing.replay import MethodState, Replayer
from bench.timing.segments import UPDATE
from methods.base import SparseMethod

_IMAGES = 4
"""Images per step of the walk to the final topology."""


def scouted(spec: RunSpec, device: torch.device) -> Scouted:
    """Needs no longer than the walk through the schedule's updates, a short step each."""
    session = build_session(spec, device)
    facts = method_facts(session)
    active = [session.method.active_parameters()]
    exported = session.method.export(session.model)
    stored = sum(parameter.numel() for parameter in exported.parameters())
    final = final_state(session.uncompiled())
    active.append(session.method.active_parameters())
    packed = pack(final)
    replayer = Replayer(build_session(spec, device), final)
    del session, exported, final  # no step that is counted has them beside it
    gc.collect()
    costs = [segment_cost(replayer, part) for part in replayer.segments]
    active += [cost.active_parameters for cost in costs]
    return Scouted(
        packed,
        {
            **facts,
            **environment_columns(environment.collect(device).to_dict()),
            "bare_version": BARE_VERSION,
            **_active_columns(replayer.session.method, active),
            "stored_parameters": stored,
            **run_costs(spec, costs),
            "memory_source": "allocator" if device.type == "cuda" else "accounted",
        },
        tuple(cost.row for cost in costs),
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


def _active_columns(method: SparseMethod, active: Sequence[int]) -> Row:
    """Active parameters wherever they were seen: at the start, after the walk's updates, and after
    the step of every segment that was accounted."""
    allowed = method.allowed_parameters()
    keeps = all(method.budget_invariant.holds(number, allowed) for number in active)
    return {
        "active_parameters": active[1],
        "active_parameters_min": min(active),
        "active_parameters_max": max(active),
        "reason_codes": [] if keeps else [BUDGET_BROKEN],
    }
