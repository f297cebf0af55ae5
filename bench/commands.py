"""What the commands do, between the command line and the rooms that do the work."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.errors import UsageError
from bench.experiments.catalog import EXPERIMENTS
from bench.lock import exclusive
from bench.method_registry import METHODS
from bench.modes import TRAIN
from bench.spec import REAL
from bench.store import StudyStore, latest_study
from bench.study_file import DEFAULT, study_spec
from bench.wording import count, percentage, say
from bench.workloads.registry import WORKLOADS

PLAN_DEFAULT = replace(DEFAULT, densities=(0.1, 0.3, 0.5, 0.7))


def report_command(study: str | None, results: Path, console: Console, force: bool = False) -> None:
    store = _study_to_report(study, results)
    from reports.page import render

    written = render(store, console, force)
    say(console, f"{len(written)} files in {store.report_folder}")


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
    say(console, f"{len(written)} files in {store.report_folder}")


def _study_to_report(study: str | None, results: Path) -> StudyStore:
    store = StudyStore(results, study or latest_study(results))
    store.require()
    return store


@dataclass(frozen=True)
class Prediction:
    """What `bench plan --predict` is told beside what a study is made of."""

    wanted: bool = False
    cards: Path | None = None
    """File with tables [cards.NAME]."""


def plan_command(
    file: Path | None,
    given: Mapping[str, Any],
    as_json: bool,
    console: Console,
    prediction: Prediction = Prediction(),
) -> None:
    """Budgets and counts in closed form, or predicted costs of steps.

    Raises:
        UsageError: no study could be made of it, or an option of --predict stands alone.
    """
    from bench.plan import study_rows
    from bench.plan_tables import show_plan

    alone = {**given, "cards": prediction.cards}
    for option in ("device", "gpu", "cards"):
        if alone.get(option) is not None and not prediction.wanted:
            raise UsageError(f"--{option}: an option of --predict alone; a plan is of no device")
    spec = study_spec(file, given, PLAN_DEFAULT, to_run=False)
    if spec.mode == TRAIN and spec.steps is None:  # a full schedule reads its data set
        replace(spec, data=REAL).check(to_run=False)
    if prediction.wanted:
        from bench.predict.command import predict_command

        predict_command(spec, file, prediction.cards, as_json, console)
        return
    rows = study_rows(spec)
    if as_json:
        console.out(json.dumps(rows, indent=2), highlight=False)
        return
    show_plan(rows, console)


def pack_command(study: str, results: Path, console: Console) -> None:
    """Put a study's records into one file per table.

    Raises:
        UsageError: there is no such study, it is being run, or its records cannot be read.
    """
    store = StudyStore(results, study)
    store.require()
    with exclusive(store.folder):
        packed = store.pack()
    say(console, f"{count(packed, 'run')} of study {study} in {store.folder / 'packed'}")


def list_command(console: Console) -> None:
    entries_by_title = {"Methods": METHODS, "Workloads": WORKLOADS, "Experiments": EXPERIMENTS}
    for title, entries in entries_by_title.items():
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
