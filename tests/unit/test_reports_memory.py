"""Tables of memory by cause and by kind of step, from records of the present and of the past."""

import csv
import io
from pathlib import Path

import pytest

from bench.schema import MEMORY_PARTS
from bench.store import StudyStore
from reports.contenders import group
from reports.load import load
from reports.page import make_tables
from reports.summary import summarise
from reports.table import Table
from reports.writers import csv_text, markdown
from tests.unit.reports_fixture import DENSE_BYTES, run_row, tables_of, write_study

MIB = 2**20
NONE = dict.fromkeys((f"peak_{part}_bytes" for part in MEMORY_PARTS), None)


def tables_in(store: StudyStore) -> dict[str, Table]:
    records = load(store)
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    return {table.key: table for table in make_tables(records, summaries)}


def cells(table: Table) -> list[list[str]]:
    lines = [line for line in markdown(table).splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines]


def test_parts_are_those_of_the_largest_run_and_add_up(tmp_path: Path) -> None:
    runs = [run_row("dense", 1.0, seed) for seed in (0, 1)]
    runs.append(run_row("dense", 1.0, 2, peak_allocated_bytes=DENSE_BYTES + 8 * MIB))
    table = tables_in(write_study(tmp_path, runs))["memory_by_cause"]
    head, _, row = cells(table)
    assert head[:2] == ["method", "density"]
    assert head[3:] == [
        *("parameters, MiB", "gradients, MiB", "optimizer state, MiB", "masks and scores, MiB"),
        *("batch, MiB", "activations, MiB", "rest, MiB", "sum, MiB"),
    ]
    assert row[3:] == ["9.000"] * 6 + ["18.000", "72.000"]
    (record,) = csv.DictReader(io.StringIO(csv_text(table)))
    assert sum(float(record[f"{part}_mib"]) for part in MEMORY_PARTS) == float(record["sum_mib"])


def test_what_the_allocator_holds_besides_is_its_own_figure(tmp_path: Path) -> None:
    run = run_row("dense", 1.0, 0, memory_source="allocator")
    run["peak_allocated_bytes"] += 3 * MIB
    table = tables_in(write_study(tmp_path, [run]))["memory_by_cause"]
    assert cells(table)[0][-1] == "allocator's peak minus sum, MiB"
    assert cells(table)[2][-2:] == ["64.000", "3.000"]
    assert "data set at rest" in table.notes[1]


def test_records_that_do_not_know_their_parts(tmp_path: Path) -> None:
    old, new = run_row("dense", 1.0, 0, **NONE), run_row("static", 0.3, 0)
    store = write_study(tmp_path, [old])
    assert "memory_by_cause" not in tables_in(store)
    store.write_run(new["run_id"], tables_of(new))
    assert [row[0] for row in cells(tables_in(store)["memory_by_cause"])[2:]] == ["static"]


def test_the_peak_of_every_kind_of_step(tmp_path: Path) -> None:
    run = run_row("barter", 0.3, 0)
    tables = tables_of(run)
    for row in tables["steps"]:
        more = 2 if "update" in row["flags"] else "collecting" in row["flags"]
        row["peak_allocated_bytes"] = (10 + more + (row["step"] == 30)) * MIB
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], tables)
    head, _, row = cells(tables_in(store)["memory_by_kind"])
    assert head[4:] == ["ordinary, MiB", "collecting, MiB", "update, MiB"]
    assert row[4:] == ["10.00", "11.00", "12.00 to 13.00"]


@pytest.mark.parametrize("key", ["memory_by_cause", "memory_by_kind"])
def test_a_study_without_memory_has_no_such_table(tmp_path: Path, key: str) -> None:
    run = run_row("dense", 1.0, 0, peak_allocated_bytes=None)
    tables = tables_of(run)
    for row in tables["steps"]:
        row["peak_allocated_bytes"] = None
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], tables)
    assert key not in tables_in(store)
