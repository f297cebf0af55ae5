"""Where a step's time goes, by operator; and what one topology update takes, by replay.

Runs in a process of its own, with the heap and the threads of a timed one.
"""

import re
from collections import defaultdict
from multiprocessing.connection import Connection
from typing import Any

from torch.profiler import ProfilerActivity, profile

from bench.measure.clock import make_clock
from bench.process_setup import end_with_parent, prepare_device
from bench.processes import context, next_message, running, start_server
from bench.run_spec import RunSpec
from bench.schema import UPDATE
from bench.session import build_session
from bench.snapshot import Snapshot

GROUPS = {
    "matrix products": r"(add)?(mm|bmm)$|linear$",
    "attention": r"scaled_dot_product",
    "tokenizer: convolution, pooling": r"conv|max_pool2d",
    "layer norms": r"layer_norm",
    "GELU, ReLU": r"gelu|relu|threshold_backward",
    "Adam and weight decay": r"adam|_foreach_mul_",
    "sums, products by element, copies": (
        r"(add|sub|mul|div|sum|mean|abs|copy|cat|stack|clone|fill|zero|where|bernoulli|index"
        r"|select_backward|slice_backward)_?$"
    ),
    "loss": r"softmax|nll_loss|cross_entropy",
}
REST = "the rest: views, memory, autograd, Python"
PROFILED_STEPS, UPDATES, REPEATS = 20, 8, 6

Row = dict[str, Any]


def group_of(operator: str) -> str:
    """Of an operator's name, `aten::mm`."""
    name = operator.removeprefix("aten::")
    found = (group for group, names in GROUPS.items() if re.search(names, name))
    return next(found, REST) if operator.startswith("aten::") else REST


def by_operator(spec: RunSpec) -> Row:
    """Group -> milliseconds and calls per step, both of the profiler's own count."""
    device = prepare_device(spec, None)
    session, clock = build_session(spec, device), make_clock(device)
    batch = session.batch(1)
    for step in range(1, 4):
        session.train_step(step, batch, clock)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for step in range(4, 4 + PROFILED_STEPS):
            session.train_step(step, batch, clock)
    clock.read()
    ms: dict[str, float] = defaultdict(float)
    calls: dict[str, float] = defaultdict(float)
    for event in seen.key_averages():
        group = group_of(event.key)
        ms[group] += event.self_cpu_time_total / 1000 / PROFILED_STEPS
        calls[group] += event.count * event.key.startswith("aten::") / PROFILED_STEPS
    return {"method": spec.method, "density": spec.density, "ms": ms, "calls": calls}


def update_costs(spec: RunSpec) -> Row:
    """Of updates that are replayed from the initial state: the update's own span, over the step
    before it."""
    device = prepare_device(spec, None)
    session, clock = build_session(spec, device), make_clock(device)
    session.train_step(1, session.batch(1), clock)
    initial = Snapshot.take(session)
    flagged = [s for s in range(4, spec.total_steps) if UPDATE in session.method.flags(s)]
    ratios = []
    for _ in range(REPEATS):
        for update in flagged[:: max(1, len(flagged) // UPDATES)]:
            initial.restore(session)
            session.method.after_step(update - 4)
            clock.read()
            for step in range(update - 3, update + 1):
                session.train_step(step, session.batch(step), clock)
            *_, before, this = clock.read()
            ratios.append(this.spans["topology"] / before.step_ms)
    return {"method": spec.method, "density": spec.density, "ratios": ratios}


def in_own_process(what: str, spec: RunSpec) -> Row:
    """Call a function of this module for a run."""
    start_server(spec.device)
    processes = context(spec.device)
    mine, theirs = processes.Pipe(duplex=True)
    with running(processes.Process(target=_work, args=(what, spec, theirs))) as process:
        theirs.close()
        found = next_message(mine, process)
        mine.close()
    if found is None:
        raise RuntimeError(f"the process for {spec.title} died")
    return found


def _work(what: str, spec: RunSpec, connection: Connection) -> None:
    end_with_parent(connection)
    found = globals()[what](spec)
    connection.send({key: dict(v) if isinstance(v, dict) else v for key, v in found.items()})
