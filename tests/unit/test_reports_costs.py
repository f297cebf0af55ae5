"""What contenders cost apart from time, in the report of a study timed side by side."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from bench.schema import MEMORY_PARTS
from bench.store import StudyStore
from bench.timing.segments import FINAL
from reports.load import COLLECTING_KIND, DENSE_GRADIENT_KIND, ORDINARY_KIND, load
from reports.page_time import make_tables
from reports.segment_counts import counted_steps
from reports.side_by_side import compared
from reports.step_counts import Count
from reports.table import Table
from reports.writers import csv_text
from tests.unit.time_fixture import MIB, demo_runs, timed_run, timed_tables, write_timed

PARTS = [f"{part}_mib" for part in MEMORY_PARTS]


def tables_in(store: StudyStore) -> dict[str, Table]:
    records, comparisons = compared(load(store))
    return {table.key: table for table in make_tables(records, comparisons)}


def rows_of(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return tables_in(write_timed(tmp_path_factory.mktemp("results"), demo_runs()[:3]))


def test_operators_are_weighted_as_the_schedule_has_them(demo: dict[str, Table]) -> None:
    dense, _, barter = rows_of(demo["operations"])
    assert (dense["step_kind"], dense["operators_step"]) == ("ordinary", "400.0")
    assert float(barter["operators_update"]) == 2000
    # Of 200 steps 140 are ordinary, 54 collect, and 6 of those that would collect are updates.
    assert float(barter["operators_per_step"]) == pytest.approx(
        (140 * 400 + 54 * 500 + 6 * 2000) / 200
    )
    assert float(barter["synchronisations_per_step"]) == pytest.approx(6 / 200)
    assert "One update stands for all." in demo["operations"].notes[-1]


def test_every_kind_of_step_is_taken_apart(demo: dict[str, Table]) -> None:
    rows = rows_of(demo["memory_by_segment"])
    assert [(row["method"], row["segment"]) for row in rows] == [
        ("dense", "ordinary"),
        ("static", "ordinary"),
        *(("barter", name) for name in ("collecting", "ordinary", "update")),
    ]
    for row in rows:
        assert sum(float(row[part]) for part in PARTS) == pytest.approx(float(row["sum_mib"]))
    assert "outside_mib" not in rows[0]
    collecting, ordinary, update = (float(row["sum_mib"]) for row in rows[2:])
    assert (update - collecting, update - ordinary) == pytest.approx((1, 2))
    (cause,) = [row for row in rows_of(demo["memory_by_cause"]) if row["method"] == "barter"]
    assert [cause[part] for part in PARTS] == [rows[-1][part] for part in PARTS]
    (memory,) = [row for row in rows_of(demo["memory"]) if row["method"] == "barter"]
    assert float(memory["peak_allocated_mib"]) == pytest.approx(update)


def test_the_allocators_peak_stands_beside_the_parts(tmp_path: Path) -> None:
    run = timed_run("barter", 0.3, memory_source="allocator")
    tables = timed_tables(run)
    for row in tables["segments"]:
        row["peak_allocated_bytes"] += 3 * MIB
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], tables)
    table = tables_in(store)["memory_by_segment"]
    assert [float(row["outside_mib"]) for row in rows_of(table)] == [3.0] * 3
    assert "data set at rest" in table.notes[-1]


def test_of_several_seeds_the_largest_peak_counts(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "demo")
    for seed, peak in enumerate((40 * MIB, 48 * MIB)):
        run = timed_run("static", 0.3, seed, peak_allocated_bytes=peak)
        store.write_run(run["run_id"], timed_tables(run))
    (row,) = rows_of(tables_in(store)["memory_by_segment"])
    assert float(row["sum_mib"]) == 48


def test_records_that_do_not_know_their_parts(tmp_path: Path) -> None:
    run: dict[str, Any] = timed_run("dense", 1.0)
    run |= {f"peak_{part}_bytes": None for part in MEMORY_PARTS}
    tables = timed_tables(run)
    for row in tables["segments"]:
        for part in MEMORY_PARTS:
            del row[f"peak_{part}_bytes"]
    store = StudyStore(tmp_path, "demo")
    store.write_run(run["run_id"], tables)
    assert not {"memory_by_segment", "memory_by_cause"} & tables_in(store).keys()


def segment(name: str, share: float, operators: int | None, base: tuple[str, ...] = ()) -> Any:
    return {
        "segment": name,
        "share": share,
        "base": list(base),
        "dispatched_operators": operators,
        "host_synchronisations": 0,
        "peak_allocated_bytes": 1,
    }


def test_both_widths_of_a_kind_are_one_kind() -> None:
    rows = [
        segment("ordinary", 0.25, 10),
        segment("ordinary" + FINAL, 0.25, 20),
        segment("collecting+dense_gradient", 0.5, 30),
    ]
    assert counted_steps(rows, 40).operators == {
        ORDINARY_KIND: Count(10, 20, 300, 20),
        DENSE_GRADIENT_KIND: Count(30, 30, 600, 20),
    }


def test_a_kind_that_updates_replaced_altogether_is_not_there() -> None:
    rows = [
        segment("collecting", 0.5, 10),
        segment("ordinary", 0.5, 5),
        segment("update", 0.5, 50, base=("collecting",)),
    ]
    assert COLLECTING_KIND not in counted_steps(rows, 40).operators


def test_counts_that_are_not_all_known_are_none() -> None:
    assert counted_steps([segment("ordinary", 1.0, None)], 40).operators == {}
    lost = segment("update", 0.1, 9, base=("dense_gradient",))
    assert counted_steps([segment("ordinary", 1.0, 5), lost], 40).operators == {}
    assert counted_steps([], 40).operators == {}
