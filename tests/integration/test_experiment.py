"""`bench run --experiment`: stages, their studies, and what one takes from another."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.store import StudyStore
from tests.support.command import call

SHORT = ("--steps", "16", "--batch-size", "8", "--seeds", "0", "--device", "cpu")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def experiment(monkeypatch: pytest.MonkeyPatch, results: Path, *more: str) -> int:
    return call(monkeypatch, "run", "--results", str(results), "--experiment", *more)


def rows(results: Path, study: str) -> list[dict[str, Any]]:
    return list(StudyStore(results, study).finished().values())


def test_matched_compute_from_its_first_dense_run_to_its_report(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("matched-compute", *SHORT, "--density", "0.3", "--study", "x")
    assert experiment(monkeypatch, results, *asked) == 0
    output = capsys.readouterr().out
    assert "11 runs to do of 11" in output  # 1 dense, 8 fine-tuned, 2 continued
    assert "stage 3 of 3: matched-compute" in output
    assert {row["start"] for row in rows(results, "x-matched-compute")} == {"continue"}
    for stage in ("pretraining", "finetune", "matched-compute"):
        content = StudyStore(results, f"x-{stage}").experiment()
        assert content
        assert content["stage"] == stage
        assert content["studies"]["finetune"] == "x-finetune"
    assert call(monkeypatch, "report", "x-matched-compute", "--results", str(results)) == 0
    page = (results / "x-matched-compute" / "report" / "report.md").read_text()
    assert "Experiment matched-compute, scale small" in page
    assert "replicate nothing" in page
    assert experiment(monkeypatch, results, *asked) == 0
    assert "0 runs to do of 11" in capsys.readouterr().out


def test_rates_of_a_search_are_used_and_recorded(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("budgets", *SHORT, "--density", "0.5", "--study", "x")
    assert experiment(monkeypatch, results, *asked) == 0
    best: dict[str, dict[float, list[float]]] = {}
    evals = StudyStore(results, "x-learning-rates").arrow("evals").to_pylist()
    for row in rows(results, "x-learning-rates"):
        top = max(
            e["top1_percent"]
            for e in evals
            if e["run_id"] == row["run_id"] and e["split"] == "validation"
        )
        best.setdefault(row["workload"], {}).setdefault(row["learning_rate"], []).append(top)
    for row in rows(results, "x-main"):
        means = {rate: sum(tops) for rate, tops in sorted(best[row["workload"]].items())}
        assert len(means) == 3
        assert row["learning_rate"] == max(means, key=lambda rate: means[rate])
    study = json.loads((results / "x-main" / "study.json").read_text())
    assert {(w, m) for w, m, _ in study["rates"]} == {
        ("vit-digits", "barter"),
        ("cct-digits", "barter"),
    }
    capsys.readouterr()
    assert call(monkeypatch, "status", "x-main", "--results", str(results)) == 0
    assert "2 runs: 2 finished" in capsys.readouterr().out


def test_a_dry_run_lists_seconds_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("matched-compute", "--dry-run", "--density", "0.3", "--seeds", "0")
    assert experiment(monkeypatch, results, *asked) == 0
    output = capsys.readouterr().out
    assert "nothing was run" in output
    assert re.search(r"finetune-small +vit-digits-5-9 +rigl +0\.3 +1 +1 +216 +\d+", output)
    assert re.search(r"11 runs to do of 11, about \d+ minutes", output)
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("mian",), "unknown experiment 'mian'; did you mean 'main'"),
        (("main", "--scale", "huge"), "unknown scale 'huge'"),
        (("main", "--methods", "rigl"), "experiment main decides that itself: leave out --method"),
        (("main", "--learning-rate", "0.1"), "leave out --learning-rate"),
        (("settings", "--density", "two"), "--density takes a number, not 'two'"),
        (("settings", "--seeds", "-1"), "seed -1 is outside"),
        (("settings", "--device", "tpu"), "tpu"),
        (("main", "--scale", "full", "--data-dir", "/nowhere"), "/nowhere"),
    ],
)
def test_wrong_requests(
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    assert experiment(monkeypatch, results, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not results.exists()


def test_a_scale_needs_an_experiment(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "run", "--scale", "small", "--results", str(results)) == 2
    assert "--scale: an option of --experiment alone" in capsys.readouterr().err
