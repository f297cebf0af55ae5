"""Two studies in memory: what a comparison rests on, without any file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.schema import RUNS
from bench.store import StudyStore
from reports.compare_match import match
from reports.compare_times import Comparison, Study, TimeChange
from reports.load import Records, Run, Standing
from tests.unit.reports_fixture import Row, run_row
from tests.unit.time_fixture import timed_run

Launches = Sequence[Sequence[float]]
"""Milliseconds by launch and round."""


def run_of(
    row: Row,
    standing: Standing = Standing.USED,
    reason: str = "",
    config: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> Run:
    columns = dict.fromkeys(column.name for column in RUNS)
    return Run(columns | row, standing, reason, config or {}, environment or {})


def records_of(runs: list[Run], mode: str = "train") -> Records:
    return Records("demo", runs, [], [], StudyStore(Path("results"), "demo"), mode)


def timed(steps: Mapping[str, Launches], again: Launches | None = None, **changes: Any) -> Study:
    """Methods timed side by side at one density each; `again` is the second entry of dense."""
    runs = [run_of(timed_run(m, 1.0 if m == "dense" else 0.3) | changes) for m in steps]
    ids = dict(zip(steps, (run["run_id"] for run in runs), strict=True))
    cells = {ids[m]: _cells(launches) for m, launches in steps.items()}
    second = {ids["dense"]: _cells(again)} if again else {}
    return Study(records_of(runs, "time"), cells, second)


def trained(steps: Mapping[str, Sequence[float]], **changes: Any) -> Study:
    """Methods with the mean steps of seeds 0, 1, ..."""
    runs, cells = [], {}
    for method, times in steps.items():
        for seed, ms in enumerate(times):
            run = run_of(run_row(method, 1.0 if method == "dense" else 0.3, seed) | changes)
            runs.append(run)
            cells[run["run_id"]] = {(seed, 0): ms}
    return Study(records_of(runs), cells, {})


def compared(before: Study, after: Study, force: bool = False) -> Comparison:
    return Comparison(before, after, match(before.records, after.records), force)


def by_method(comparison: Comparison) -> dict[str, TimeChange]:
    return {change.match.configuration.method: change for change in comparison.times}


def _cells(launches: Launches) -> dict[tuple[Any, int], float]:
    return {
        ((0, launch), number): ms
        for launch, rounds in enumerate(launches)
        for number, ms in enumerate(rounds)
    }
