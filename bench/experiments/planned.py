"""The runs of an experiment with the time that each will take, before any of them. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.experiments.catalog import Stage
from bench.modes import TIME
from bench.processes import context, next_message, running, start_server
from bench.run_spec import RunSpec
from bench.schema import OK
from bench.store import StudyStore
from bench.timing.study import Effort
from bench.wide_table import print_whole
from bench.wording import count, say

OVERHEAD_S = 3.0
"""Of a run beside its steps: its process, evaluations and accounting. Chosen, for a sum alone."""

Cost = tuple[str, str, float, int, str]
"""What decides how long a step takes: workload, contender, density, batch size, execution."""


@dataclass(frozen=True)
class Planned:
    """A stage and its runs as far as they are known: those that start from others have their own
    ids only when these are done."""

    stage: Stage
    store: StudyStore
    runs: Sequence[RunSpec]
    pending: Sequence[RunSpec]


def show(
    planned: Sequence[Planned],
    effort: Effort,
    device_index: int | None,
    jobs: int,
    console: Console,
) -> None:
    """Print the list and its sum; runs of mode `train` go `jobs` at once."""
    seconds = _seconds_per_step(planned, device_index)
    table = Table(title="Runs", title_justify="left", box=box.SIMPLE)
    for name in ("stage", "workload", "method", "density"):
        table.add_column(name, no_wrap=True)
    for name in ("to do", "of", "steps", "s each", "min"):
        table.add_column(name, justify="right", no_wrap=True)
    total = 0.0
    for plan in planned:
        for cells, spent in _rows(plan, seconds, effort):
            table.add_row(*cells)
            total += spent / (1 if plan.stage.mode == TIME else jobs)
    print_whole(table, console)
    todo = sum(len(plan.pending) for plan in planned)
    everything = sum(len(plan.runs) for plan in planned)
    unknown = "" if isfinite(total) else ", of those whose steps could be timed"
    more = f"{unknown}, {jobs} at once" if jobs > 1 else unknown
    say(
        console,
        f"{count(todo, 'run')} to do of {everything:,}, about {total / 60:.0f} minutes{more}"
        f" (steps as timed here beforehand, and {OVERHEAD_S:g} s for the rest of a run)",
    )


def _rows(
    plan: Planned, seconds: Mapping[Cost, float], effort: Effort
) -> list[tuple[tuple[str, ...], float]]:
    if plan.stage.mode == TIME:
        return [_time_row(plan, workload, effort) for workload in _workloads(plan.runs)]
    groups: dict[tuple[Cost, int], list[RunSpec]] = {}
    for run in plan.runs:
        groups.setdefault((_cost(run), run.total_steps), []).append(run)
    pending = {run.run_id for run in plan.pending}
    rows = []
    for (cost, steps), runs in groups.items():
        each = steps * seconds.get(cost, 0.0) + OVERHEAD_S
        todo = sum(run.run_id in pending for run in runs)
        run = runs[0]
        cells = (
            *(plan.store.study, run.workload, run.contender, f"{run.density:g}"),
            *(f"{todo}", f"{len(runs)}", f"{steps:,}", f"{each:,.0f}", f"{todo * each / 60:,.1f}"),
        )
        rows.append((cells, todo * each))
    return rows


def _time_row(plan: Planned, workload: str, effort: Effort) -> tuple[tuple[str, ...], float]:
    runs = [run for run in plan.runs if run.workload == workload]
    todo = sum(run.workload == workload for run in plan.pending)
    spent = effort.time_limit_s if todo else 0.0
    density = ", ".join(dict.fromkeys(f"{run.density:g}" for run in runs))
    cells = (plan.store.study, workload, "all side by side", density, f"{todo}", f"{len(runs)}")
    return (*cells, "–", "–", f"up to {spent / 60:,.0f}"), spent  # noqa: RUF001


def _seconds_per_step(planned: Sequence[Planned], device_index: int | None) -> dict[Cost, float]:
    """From finished runs, where there are some of a kind; the others are timed now."""
    known: dict[Cost, float] = {}
    asked: dict[Cost, RunSpec] = {}
    for plan in planned:
        if plan.stage.mode == TIME:
            continue
        finished = plan.store.finished()
        for run in plan.runs:
            row = finished.get(run.run_id)
            if row and row["status"] == OK and not row["resumed"] and row["wall_s"]:
                known[_cost(run)] = max(0.0, row["wall_s"] - OVERHEAD_S) / run.total_steps
        for run in plan.pending:
            # A continued run does the steps of the one before it, without collecting.
            asked.setdefault(_cost(run), replace(run, start=None))
    missing = {cost: run for cost, run in asked.items() if cost not in known}
    if missing:
        known |= zip(missing, _timed(list(missing.values()), device_index), strict=True)
    return known


def _timed(specs: Sequence[RunSpec], device_index: int | None) -> list[float]:
    start_server(specs[0].device)
    processes = context(specs[0].device)
    receiver, sender = processes.Pipe(duplex=False)
    times: list[float] = []
    with running(processes.Process(target=_work, args=(specs, device_index, sender))) as process:
        sender.close()
        while len(times) < len(specs):
            message = next_message(receiver, process)
            if message is None:  # it died: the rest stays unknown
                break
            times.append(message if isfinite(message) else 0.0)
    return times + [0.0] * (len(specs) - len(times))


def _work(specs: Sequence[RunSpec], device_index: int | None, sender: Any) -> None:
    from bench.experiments.sample import work  # loads torch

    work(specs, device_index, sender)


def _cost(run: RunSpec) -> Cost:
    return run.workload, run.contender, run.density, run.batch_size, run.unusual


def _workloads(runs: Sequence[RunSpec]) -> list[str]:
    return list(dict.fromkeys(run.workload for run in runs))
