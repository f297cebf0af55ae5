"""What the commands do, between the command line and the rooms that do the work."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.method_registry import METHODS, get_method
from bench.schema import OK
from bench.spec import StudySpec
from bench.store import StudyStore, latest_study
from bench.study_file import DEMO, claim, study_spec
from bench.workloads.registry import WORKLOADS, get_workload

_PLAN_COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "workload": lambda row: row["workload"],
    "method": lambda row: row["method"],
    "density": lambda row: f"{row['density']:g}",
    "heads": lambda row: f"{row['heads']:,}",
    "channels": lambda row: f"{row['channels']:,}",
    "transfers": lambda row: (
        ""
        if row["head_transfers"] is None
        else f"{row['head_transfers']} + {row['channel_transfers']}"
    ),
    "steps": lambda row: f"{row['total_steps']:,}",
    "MMACs forward": lambda row: f"{row['macs_forward_per_image'] / 1e6:.2f}",
    "MMACs training": lambda row: f"{row['macs_train_per_image'] / 1e6:.2f}",
    "PFLOPs total": lambda row: f"{row['flops_train_total'] / 1e15:.4g}",
    "saved": lambda row: f"{row['flops_saving']:.1%}",
    "matched epochs": lambda row: f"{row['matched_epochs']:.2f}",
    "parameters": lambda row: f"{row['parameters']:,}",
}
"""What the terminal shows of a plan; `--json` has everything, exact."""

PLAN_DEFAULTS: dict[str, Any] = {**DEMO, "densities": (0.1, 0.3, 0.5, 0.7)}


def run_command(
    file: Path | None, given: Mapping[str, Any], results: Path, dry_run: bool, console: Console
) -> int:
    """Returns the exit code: 0, or 1 if a run failed."""
    from bench.display import make_display
    from bench.measure.devices import resolve
    from bench.runner import pending_runs, run_study

    asked = study_spec(file, given)
    device = resolve(asked.device, asked.gpu)
    spec = replace(asked, device=device.kind, gpu=device.name if device.kind == "cuda" else None)
    store = StudyStore(results, spec.name)
    runs = spec.runs()
    if dry_run:
        _print_runs(spec, {run.run_id for run in pending_runs(runs, store)}, store, console)
        return 0
    claim(store, spec)
    _say(console, f"study {spec.name} on {device.kind} ({device.name}), records in {store.folder}")
    try:
        outcome = run_study(runs, store, device.index, make_display(console))
    except KeyboardInterrupt:
        kept = sum(row["status"] == OK for row in store.finished().values())
        _say(console, f"interrupted; {kept} finished runs are kept, the same call goes on")
        raise
    for row in outcome.not_ok:
        _say(console, f"{row['method']} seed {row['seed']}: {row['status']}: {row['reason']}")
    _say(console, f"{_count(len(outcome.rows))} done, {outcome.already_finished} kept from before")
    arguments = "" if results == Path("results") else f" --results {results}"
    _say(console, f"next: bench report {spec.name}{arguments}")
    return 1 if outcome.not_ok else 0


def report_command(study: str | None, results: Path, console: Console) -> None:
    store = StudyStore(results, study or latest_study(results))
    store.require()
    from reports.page import render

    written = render(store, console)
    _say(console, f"{len(written)} files in {store.report_folder}")


def plan_command(
    file: Path | None, given: Mapping[str, Any], as_json: bool, console: Console
) -> None:
    from bench.plan import plan_rows

    spec = study_spec(file, given, PLAN_DEFAULTS, to_run=False)
    rows = [
        row
        for workload in map(get_workload, spec.workloads)
        for method in map(get_method, spec.methods)
        for row in plan_rows(
            [workload],
            [method],
            spec.densities,
            total_steps=spec.steps,
            batch_size=spec.batch_size,
            transfer_multiplier=getattr(spec.config(method, workload), "transfer_multiplier", None),
        )
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(*_PLAN_COLUMNS)
    _say(console, "Full schedules, exact counts; nothing was run.")
    for row in rows:
        table.add_row(*(show(row) for show in _PLAN_COLUMNS.values()))
    console.print(table)


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
    table = Table("run", "workload", "method", "density", "seed", "steps", "batch", "state")
    for run in spec.runs():
        state = "to do" if run.run_id in pending else "finished"
        cells = (run.density, run.seed, run.total_steps, run.batch_size)
        table.add_row(run.run_id, run.workload, run.method, *(f"{c:g}" for c in cells), state)
    console.print(table)
    _say(console, f"study {spec.name}: records would go to {store.folder}; nothing was run")


def _count(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
