"""Contenders of different settings: no ratio, unless by force and marked."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.store import StudyStore
from reports.load import load
from reports.page import render
from tests.unit.reports_fixture import Row, run_row, write_study
from tests.unit.time_fixture import timed_run, true_step_ms, write_timed

TITLE = "Forced: ratios across settings"


def rendered(store: StudyStore, force: bool) -> tuple[str, Path]:
    out = io.StringIO()
    render(store, Console(width=160, file=out, force_terminal=False), force)
    return out.getvalue(), store.report_folder / "across_settings.csv"


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def compiled(row: Row) -> Row:
    return row | {"run_id": f"{row['run_id']}-compiled", "compile": True}


@pytest.fixture(params=["train", "time"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StudyStore:
    """Dense and static, and compiled static alone."""
    make, write = (run_row, write_study) if request.param == "train" else (timed_run, write_timed)
    runs = [make("dense", 1.0, 0), make("static", 0.3, 0), compiled(make("static", 0.3, 0))]
    return write(tmp_path, runs)


def test_without_force_it_says_what_differs_and_prints_no_ratio(store: StudyStore) -> None:
    text, path = rendered(store, force=False)
    assert "Runs of vit-digits that differ in compile (off and on) are not compared" in text
    assert TITLE not in text
    assert not path.exists()


def test_by_force_every_ratio_says_what_differs(store: StudyStore) -> None:
    text, path = rendered(store, force=True)
    assert TITLE in text
    assert "are not compared with each other." in " ".join(text.split())
    assert "--force` adds" not in text
    assert "no such ratio is the effect of a method alone" in " ".join(text.split())
    pairs = {(r["method"], r["with"], r["over_method"], r["over_with"]): r for r in rows_of(path)}
    assert pairs.keys() == {
        ("static", "compile on", "dense", "compile off"),
        ("static", "compile on", "static", "compile off"),
    }
    over_dense = float(pairs["static", "compile on", "dense", "compile off"]["speedup"])
    expected = true_step_ms("dense", 1.0) / true_step_ms("static", 0.3)
    assert over_dense == pytest.approx(expected, rel=0.05)
    rendered(store, force=False)
    assert not path.exists(), "none survives a report without force"


def test_force_adds_nothing_where_all_is_comparable(tmp_path: Path) -> None:
    alike = write_study(tmp_path, [run_row("dense", 1.0, 0), run_row("static", 0.3, 0)])
    text, path = rendered(alike, force=True)
    assert TITLE not in text
    assert not path.exists()


def test_the_setting_line_says_what_is_unusual(store: StudyStore) -> None:
    text, _ = rendered(store, force=False)
    assert "(cpu, 2 threads, torch 2.11.0)" in text
    assert "(cpu, 2 threads, compiled, torch 2.11.0)" in text


def test_records_without_the_columns_are_comparable_with_default_ones(tmp_path: Path) -> None:
    said = {"autocast": "none", "compile": False, "attention": "auto", "optimizer": "fused"}
    old, new = run_row("dense", 1.0, 0), run_row("static", 0.3, 0, **said)
    store = write_study(tmp_path, [old, new])
    assert [run["attention"] for run in load(store).runs] == ["auto", "auto"]
    assert "are not compared" not in rendered(store, force=False)[0]
