"""The table of operators and host synchronisations, from records of the present and of the past."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bench.schema import DENSE_GRADIENT, UPDATE
from bench.store import StudyStore
from reports.contenders import group
from reports.load import NO_UPDATE, load
from reports.page import make_tables
from reports.step_counts import Count, count_by_kind, over_runs, together
from reports.summary import summarise
from reports.table import Table
from reports.terminal import show
from reports.writers import csv_text, latex, markdown
from tests.unit.reports_fixture import demo_runs, run_row, step_rows, tables_of, write_study

COUNTED = ("dispatched_operators", "host_synchronisations")


def tables_in(store: StudyStore) -> dict[str, Table]:
    records = load(store)
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    return {table.key: table for table in make_tables(records, summaries)}


def cells(table: Table) -> list[list[str]]:
    """Without the column of active parameters."""
    lines = [line for line in markdown(table).splitlines() if line.startswith("| ")]
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    return [[*row[:2], *row[3:]] for row in rows]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return tables_in(write_study(tmp_path_factory.mktemp("results"), demo_runs()))["operations"]


def test_steps_updates_and_the_mean_of_the_schedule(table: Table) -> None:
    plain = ["ordinary", "400", "–", "400", "0", "–", "0"]  # noqa: RUF001
    # 60 of 200 steps collect, 6 update: 400 + (60 x 100 + 6 x 1500 + 50) / 200 operators.
    busy = ["ordinary", "400", "2,000 to 2,050", "475", "0", "1", "0.0300"]
    assert cells(table) == [
        ["dense", "1.0", "3", *plain],
        ["static", "0.1", "2", *plain],
        ["static", "0.3", "3", *plain],
        ["barter", "0.1", "2", *busy],
        [f"barter ({NO_UPDATE})", "0.1", "1", *plain[:1], "400", *plain[2:3], "430", *plain[4:]],
        ["barter", "0.3", "3", *busy],
    ]
    row = list(csv.DictReader(io.StringIO(csv_text(table))))[5]
    assert float(row["operators_step"]) == 400
    assert float(row["operators_update"]) == pytest.approx(2000 + 50 / 6)
    assert float(row["operators_per_step"]) == pytest.approx(400 + (6000 + 9000 + 50) / 200)
    assert float(row["synchronisations_update"]) == 1
    assert float(row["synchronisations_per_step"]) == pytest.approx(0.03)
    assert "2,000 to 2,050" in latex(table)


@pytest.mark.parametrize("width", [80, 100])
def test_it_is_legible_on_a_terminal(table: Table, width: int) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    show(table, console, set())
    text = console.export_text()
    assert all(len(line) <= width for line in text.splitlines())
    assert "2,000 to 2,050" in text
    assert "Exact counts" in text


def test_a_method_without_ordinary_steps(tmp_path: Path) -> None:
    run = run_row("snfs", 0.3, 0, is_dynamic=True, executed_updates=1)
    tables = tables_of(run)
    for row in tables["steps"]:
        row["flags"] = [*(flag for flag in row["flags"] if flag == UPDATE), DENSE_GRADIENT]
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], tables)
    assert cells(tables_in(store)["operations"])[0][3:6] == [
        "dense gradient",
        *("400 to 500",),
        "2,000 to 2,050",
    ]


def without_columns(path: Path) -> None:
    """The file as a version wrote it that did not know the counts."""
    old = pq.read_table(path)
    pq.write_table(old.drop_columns(list(COUNTED)), path)


@pytest.mark.parametrize("missing", ["null", "no columns"])
def test_records_without_counts(tmp_path: Path, missing: str) -> None:
    old, new = run_row("dense", 1.0, 0), run_row("static", 0.3, 0)
    store = write_study(tmp_path, [old])
    if missing == "null":
        rows: list[dict[str, Any]] = [
            {key: value for key, value in row.items() if key not in COUNTED}
            for row in step_rows(old)
        ]
        store.write("steps", old["run_id"], rows)
    else:
        without_columns(store.folder / "steps" / f"{old['run_id']}.parquet")
    assert "operations" not in tables_in(store)
    store.write_run(new["run_id"], tables_of(new))
    rows_of = cells(tables_in(store)["operations"])
    assert rows_of[0] == ["dense", "1.0", "1", *["–"] * 7]  # noqa: RUF001
    assert rows_of[1][:5] == ["static", "0.3", "1", "ordinary", "400"]


def test_counts_by_kind_and_over_runs() -> None:
    kinds = np.array([0, 0, 3], np.int8)
    one = count_by_kind(kinds, np.array([5.0, 7.0, 9.0]))
    assert one == {0: Count(5, 7, 12, 2), 3: Count(9, 9, 9, 1)}
    assert count_by_kind(kinds, np.array([5.0, np.nan, 9.0])) == {}
    assert count_by_kind(np.empty(0, np.int8), np.empty(0)) == {}
    both = over_runs([one, {0: Count(1, 1, 3, 3)}, {}])
    assert both == {0: Count(1, 7, 15, 5), 3: Count(9, 9, 9, 1)}
    assert both[0].mean == 3
    assert together(both.values()) == Count(1, 9, 24, 6)
    assert together([]) is None
