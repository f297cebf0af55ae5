"""`bench compare` as its user sees it: tables, files, exit codes, one-line refusals."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.test_cli import call
from tests.unit import reports_fixture, time_fixture
from tests.unit.reports_fixture import run_row, write_study
from tests.unit.time_fixture import timed_run, write_timed


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`old` and `new` were timed, `new` with a slower static; `seeds` was trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    root = tmp_path / "results"
    dense, static, barter, failed, _ = time_fixture.demo_runs()
    write_timed(root, [dense, static, barter, failed], "old", noise=0.001)
    write_timed(root, [dense, barter, timed_run("set", 0.3)], "new", noise=0.001)
    write_timed(root, [static], "new", noise=0.001, factor=1.2)
    write_study(root, [run_row("dense", 1.0, s) for s in range(2)], "seeds")
    return root


Captured = pytest.CaptureFixture[str]


def rows_of(folder: Path, table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / f"{table}.csv").read_text().splitlines()))


def test_a_planted_difference_is_found(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, "compare", "old", "new", "--output", "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    rows = rows_of(Path("out"), "compare_time")
    verdicts = {row["method"]: row["verdict"] for row in rows}
    assert verdicts == {"dense": "reference", "static": "slower", "barter": "same"}
    assert float(rows[1]["ratio_to_dense"]) == pytest.approx(1.2, rel=0.01)
    assert (rows[1]["n_before"], rows[1]["n_after"], rows[1]["forced"]) == ("5", "5", "False")
    assert rows[1]["after_device_name"] == "Example CPU"
    for said in (
        *("Before (results/old)", "After (results/new)", "Example CPU", "slower"),
        "Judged: time relative to dense of the same study",
        "Left out of this workload, and listed under `Not compared`: runs, 1 before and 1 after",
        *("n: launches before and after", "family of 2 rows", "counts are equal"),
        *("not in the study before", "failed before: its process died"),
    ):
        assert said in text, said
    written = json.loads(Path("out/compare.json").read_text())
    (static,) = [r for r in written["tables"]["compare_time"]["rows"] if r["method"] == "static"]
    assert static["verdict"] == "slower"
    assert static["simultaneous_low"] < static["ratio_to_dense"] < static["simultaneous_high"]
    page = Path("out/compare.md").read_text()
    assert "| static | 0.3 | 5 | 5 |" in page
    lone = rows_of(Path("out"), "compare_left_out")
    assert [(row["held_by"], row["method"]) for row in lone] == [
        ("before", "static"),
        ("after", "set"),
    ]


def test_paths_and_a_copy(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    shutil.copytree(results / "seeds", "copy")
    assert call(monkeypatch, "compare", "results/seeds", "./copy", "--output", "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "After (copy)" in text
    assert "Left out: none of the workload's runs." in text
    assert "Nothing: every run of both studies is in the tables." in text
    (row,) = rows_of(Path("out"), "compare_time")
    assert (row["time_ratio"], row["verdict"]) == ("1.0", "too few launches")
    assert {float(r["difference"]) for r in rows_of(Path("out"), "compare_counts")} == {0}
    (row,) = rows_of(Path("out"), "compare_accuracy")
    assert (row["seeds"], float(row["difference_points"])) == ("2", 0.0)


def test_one_run_says_that_it_has_no_interval(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in ("one", "other"):
        write_study(results, [run_row("static", 0.3, 0)], name)
    assert call(monkeypatch, "compare", "one", "other") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "One run only on a side, so there is no interval and no verdict: static 0.3." in text
    assert "for lack of dense beside it in both studies: static 0.3" in text


def test_unlike_conditions(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    changes: dict[str, Any] = {"device_name": "Other CPU", "stored_parameters": 5}
    write_timed(results, [run | changes for run in time_fixture.demo_runs()[:3]], "there")
    assert call(monkeypatch, "compare", "old", "there", "--output", "out") == 0
    text = " ".join(capsys.readouterr().out.split())
    differ = "conditions differ: device_name (Example CPU before, Other CPU after)"
    assert f"Times are not compared, since {differ}" in text
    rows = rows_of(Path("out"), "compare_time")
    assert {(row["time_ratio"], row["verdict"]) for row in rows} == {("", "not compared")}
    counts = {(r["count"], r["after"]) for r in rows_of(Path("out"), "compare_counts")}
    assert ("stored_parameters", "5") in counts
    assert call(monkeypatch, "compare", "old", "there", "--force", "--output", "out") == 0
    assert "Forced: conditions differ" in capsys.readouterr().out
    rows = rows_of(Path("out"), "compare_time")
    assert all(row["time_ratio"] and row["verdict"].endswith("(forced)") for row in rows)
    assert {row["forced"] for row in rows} == {"True"}


def _newer(study: Path) -> None:
    path = next((study / "runs").glob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"schema_version": "99", "table": "runs"}), path)


def _truncated(study: Path) -> None:
    path = next((study / "runs").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:100])


def _emptied(study: Path) -> None:
    for path in (study / "runs").glob("*.parquet"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_newer, "schema version 99, newer than this program's"),
        (_truncated, "damaged or foreign"),
        (_emptied, "study 'bad' has no finished run yet"),
    ],
)
def test_bad_studies(
    spoil: Any, message: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    shutil.copytree(results / "seeds", results / "bad")
    spoil(results / "bad")
    refused(["seeds", "bad"], message, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old", "nwe"], "no study 'nwe' in results; did you mean 'new'?"),
        (["old", "away/new"], "away/new does not exist: give a study's folder, or its name"),
        (["old", "./file"], "file"),
        (["old", "results"], "results is a folder, but no study"),
        (["old", "old"], "old and old are the same study (results/old): give two different"),
        (["old", "results/../results/old"], "are the same study"),
        (["old", "seeds"], "results/old is of mode time and results/seeds of mode train"),
        (["seeds", "else"], "no configuration in common that was run in both (dense 1.0: not in"),
        (["old"], "Missing argument"),
        (["old", "new", "--output", "file/out"], "cannot write file/out"),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_refused(
    arguments: list[str],
    message: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    Path("file").write_text("no study")
    write_study(results, [reports_fixture.run_row("static", 0.3, 0)], "else")
    refused(arguments, message, monkeypatch, capsys)


def refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert call(monkeypatch, "compare", *arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1, "one line"
    assert output.out == ""
