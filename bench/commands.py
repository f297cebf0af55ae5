"""What the commands do, between the command line and the rooms that do the work."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.checkpoints.policy import Checkpointing
from bench.datasets.location import Place
from bench.errors import UsageError
from bench.lock import exclusive
from bench.method_registry import METHODS
from bench.modes import TIME, TRAIN
from bench.schema import OK
from bench.spec import REAL, StudySpec
from bench.store import StudyStore, latest_study
from bench.study_claim import claim, together
from bench.study_file import DEFAULT, study_spec
from bench.wide_table import print_whole
from bench.wording import count, percentage
from bench.workloads.registry import WORKLOADS

PLAN_DEFAULT = replace(DEFAULT, densities=(0.1, 0.3, 0.5, 0.7))


def run_command(
    file: Path | None,
    given: Mapping[str, Any],
    results: Path,
    dry_run: bool,
    console: Console,
    effort: Mapping[str, Any] | None = None,
    place: Place | None = None,
    checkpointing: Checkpointing | None = None,
) -> int:
    """Returns the exit code: 0, or 1 if a run failed.

    Args:
        effort: of mode `time`: launches, target, time_limit_min; defaults where not given.
        place: where the data sets are.
        checkpointing: how often runs of mode `train` are checkpointed.
    """
    from bench.capability import refuse_impossible
    from bench.datasets.study import find_data, with_data
    from bench.datasets.watch import ConsoleWatch
    from bench.display import make_display
    from bench.measure.devices import resolve
    from bench.runner import pending_runs, run_study
    from bench.timing.command import read_effort, time_command, time_plan

    place = place or Place()
    asked = study_spec(file, with_data(given, place))
    device = resolve(asked.device, asked.gpu)
    for execution in dict.fromkeys(grid.execution for grid in asked.grids):
        refuse_impossible(execution, device)
    efforts = read_effort(effort or {}, asked.mode)
    spec = replace(asked, device=device.kind, gpu=device.name if device.kind == "cuda" else None)
    store = StudyStore(results, spec.name)
    spec, runs = find_data(spec, place, ConsoleWatch(console))
    if dry_run:
        together(store, spec)
        _print_runs(spec, {run.run_id for run in pending_runs(runs, store)}, store, console)
        if spec.mode == TIME:
            _say(console, time_plan(efforts))
        return 0
    claim(store, spec)
    try:
        with exclusive(store.folder):
            where = f"{device.kind} ({device.name}), records in {store.folder}"
            _say(console, f"study {spec.name} on {where}")
            if spec.mode == TIME:
                return time_command(runs, store, device.index, efforts, console)
            outcome = run_study(
                runs,
                store,
                device.index,
                make_display(console),
                checkpointing or Checkpointing(),
            )
    except KeyboardInterrupt:
        kept = sum(row["status"] == OK for row in store.finished().values())
        _say(console, f"interrupted; {count(kept, 'finished run')} kept, the same call goes on")
        raise
    done, failed = len(outcome.rows), len(outcome.failed)
    text = f"{count(done, 'run')} done, {outcome.already_finished} kept from before"
    _say(console, f"{text}; {failed} failed, see above" if failed else text)
    arguments = "" if results == Path("results") else f" --results {results}"
    _say(console, f"next: bench report {spec.name}{arguments}")
    return 1 if outcome.failed else 0


def report_command(study: str | None, results: Path, console: Console, force: bool = False) -> None:
    store = _study_to_report(study, results)
    from reports.page import render

    written = render(store, console, force)
    _say(console, f"{len(written)} files in {store.report_folder}")


def match_command(
    study: str | None,
    results: Path,
    console: Console,
    cost: str | None,
    target_top1: str | None,
    force: bool,
) -> None:
    """`bench report --match COST`.

    Raises:
        UsageError: an unknown cost, a target that is no percentage, options that exclude each
            other, or a study that holds nothing to be matched.
    """
    if cost is None:
        raise UsageError("--target-top1: an option of --match alone")
    if force:
        raise UsageError("--force: not with --match, which has no ratios to force")
    from reports.matched_costs import find_cost

    currency = find_cost(cost)
    target = None if target_top1 is None else percentage("--target-top1", target_top1)
    store = _study_to_report(study, results)
    from reports.page_matched import render_matched

    written = render_matched(store, console, currency, target)
    _say(console, f"{len(written)} files in {store.report_folder}")


def _study_to_report(study: str | None, results: Path) -> StudyStore:
    store = StudyStore(results, study or latest_study(results))
    store.require()
    return store


def plan_command(
    file: Path | None, given: Mapping[str, Any], as_json: bool, console: Console
) -> None:
    from bench.plan import study_rows
    from bench.plan_tables import show_plan

    spec = study_spec(file, given, PLAN_DEFAULT, to_run=False)
    if spec.mode == TRAIN and spec.steps is None:  # a full schedule reads its data set
        replace(spec, data=REAL).check(to_run=False)
    rows = study_rows(spec)
    if as_json:
        console.out(json.dumps(rows, indent=2), highlight=False)
        return
    show_plan(rows, console)


def list_command(console: Console) -> None:
    for title, entries in (("Methods", METHODS), ("Workloads", WORKLOADS)):
        table = Table(title=title, title_justify="left", box=None, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, entry in entries.items():
            table.add_row(name, entry.summary)
        console.print(table)


def doctor_command(results: Path, console: Console) -> None:
    from bench.measure.doctor import checks

    table = Table("what", "can it be measured", "detail", title="This machine")
    for check in checks(results):
        table.add_row(check.name, check.status, check.detail)
    console.print(table)


def _print_runs(spec: StudySpec, pending: set[str], store: StudyStore, console: Console) -> None:
    for workload in spec.workloads:
        runs = [run for run in spec.runs() if run.workload == workload]
        table = Table(title=workload, title_justify="left", box=box.SIMPLE)
        for name in ("run", "method", "density", "seed", "steps", "batch", "state"):
            table.add_column(name, no_wrap=True)
        if any(run.unusual for run in runs):
            table.add_column("execution", no_wrap=True)
        for run in runs:
            state = "to do" if run.run_id in pending else "finished"
            cells = (
                f"{run.density:g}",
                str(run.seed),
                f"{run.total_steps:,}",
                f"{run.batch_size:,}",
            )
            unusual = [run.unusual] * (len(table.columns) > len(cells) + 3)
            table.add_row(run.run_id, run.contender, *cells, state, *unusual)
        print_whole(table, console)
    _say(console, f"study {spec.name}: records would go to {store.folder}; nothing was run")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
