"""`bench report --match` as its user sees it."""

import csv
from pathlib import Path

import pytest

from tests.support.command import call
from tests.unit.matched_fixture import learned, small_study, written
from tests.unit.reports_fixture import run_row, write_study
from tests.unit.time_fixture import demo_runs, write_timed

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    root = tmp_path / "results"
    written(root, small_study(), "small")
    return root


def test_match(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    arguments = ("report", "small", "--match", "flops", "--target-top1", "85%")
    assert call(monkeypatch, *arguments) == 0
    text = " ".join(capsys.readouterr().out.split())
    for said in (
        *("Accuracy at equal training compute", "C = 40.00 MFLOPs", "-3.50 [-9.85, +2.85]"),
        *("undecided", "50.0 (mid-schedule)", "Training compute to a target accuracy"),
        *("target 85.00 %", "not reached by 2 of 2 (best 83.00 %)", "7 files in"),
    ):
        assert said in text, said
    folder = results / "small" / "report"
    rows = list(csv.DictReader((folder / "match_flops.csv").read_text().splitlines()))
    assert [(row["method"], row["verdict"]) for row in rows] == [
        ("dense", ""),
        ("static", "undecided"),
        ("barter", "reference"),
    ]
    assert (folder / "match_flops.png").read_bytes()[:4] == b"\x89PNG"
    assert not (folder / "report.md").exists(), "the whole report is not rendered for it"


@pytest.mark.parametrize("cost", ["time", "steps", "memory"])
def test_other_costs(
    cost: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Of the latest study, where none is named."""
    assert call(monkeypatch, "report", "--match", cost) == 0
    assert "target 82.50 %" in " ".join(capsys.readouterr().out.split())
    assert (results / "small" / "report" / f"match_{cost}.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["small", "--match", "flop"], "--match is 'flop': one of flops, time, steps, memory"),
        (["small", "--match", "energy"], "by energy: 6 runs without counted energy"),
        (["timed", "--match", "time"], "study 'timed' is of mode time, which trains nothing"),
        (["synthetic", "--match", "flops"], "2 runs on synthetic data, from which nothing can"),
        (["blind", "--match", "flops"], "1 run never evaluated on the validation split"),
        (["smal", "--match", "flops"], "did you mean 'small'?"),
        (["small", "--match", "flops", "--target-top1", "high"], "such as 90%, not 'high'"),
        (["small", "--match", "flops", "--target-top1", "101%"], "above 0% and at most 100%"),
        (["small", "--match", "flops", "--target-top1", "nan"], "above 0% and at most 100%"),
        (["small", "--match", "flops", "--target-top1", "0.9"], "say 0.9% or 90%"),
        (["small", "--target-top1", "90"], "--target-top1: an option of --match alone"),
        (["small", "--match", "flops", "--force"], "--force: not with --match"),
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
    write_timed(results, demo_runs()[:2], "timed")
    write_study(
        results, [run_row("dense", 1.0, s, synthetic_data=True) for s in (0, 1)], "synthetic"
    )
    blind = learned("dense", 1.0, 0, [50.0])
    written(results, [blind | {"evals": []}], "blind")
    assert call(monkeypatch, "report", *arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.count("\n") == 1, "one line"
    assert output.out == ""
    assert not list(results.glob("*/report")), "a refused request leaves nothing behind"
