"""The report of a study that belongs to an experiment."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench.errors import UsageError
from bench.store import StudyStore
from reports.experiments import EXPERIMENTS
from reports.page import render
from tests.unit.experiment_fixture import run_of, write
from tests.unit.test_experiment_main import STUDIES, main_runs, search_runs


def rendered(store: StudyStore) -> tuple[set[str], str]:
    """Names of the files written, and the page."""
    out = io.StringIO()
    written = render(store, Console(width=160, file=out, force_terminal=False))
    return {path.name for path in written}, written[0].read_text(encoding="utf-8")


def test_the_experiment_comes_before_the_usual_tables(tmp_path: Path) -> None:
    runs, validation = search_runs()
    write(tmp_path, "rates", "main", STUDIES, runs, validation)
    store = write(tmp_path, "final", "main", STUDIES, main_runs())
    store.report_folder.mkdir()
    stale = store.report_folder / "experiment_transfers-old.png"
    stale.write_text("text")
    names, page = rendered(store)
    assert not stale.exists()
    tables, figures = ("experiment_main", "experiment_rates"), ("experiment_top1",)
    assert names >= {f"{t}.csv" for t in tables} | {f"{f}.svg" for f in figures}
    assert page.index("Accuracy by method and density") < page.index("## Step time")
    assert page.index("Search for learning rates") < page.index("## Step time")
    assert page.index("experiment_top1.png") < page.index("step_time.png")
    assert "they replicate nothing of what was published" in page
    assert "learning-rates (rates), main (final)" in page
    store.experiment_file.unlink()
    names, page = rendered(store)
    assert not any(name.startswith("experiment_") for name in names)
    assert not list(store.report_folder.glob("experiment_*"))
    assert "Experiment" not in page


def test_full_scale_says_nothing_of_small_models(tmp_path: Path) -> None:
    store = write(tmp_path, "final", "main", STUDIES, main_runs(), scale="full")
    _, page = rendered(store)
    assert "replicate nothing" not in page
    assert "Missing, stage learning-rates: study rates has not been started." in page


@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if name != "step-time"])
def test_every_experiment_reports_a_lone_failed_run(tmp_path: Path, experiment: str) -> None:
    runs = [run_of("barter", 0.3, 0, status="failed", reason="out of memory")]
    store = write(tmp_path, "only", experiment, {experiment: "only"}, runs)
    _, page = rendered(store)
    assert f"Experiment {experiment}, scale small, stage {experiment}" in page
    assert "out of memory" in page


def test_an_unknown_experiment_is_said_to_be_one(tmp_path: Path) -> None:
    store = write(tmp_path, "only", "newer", {"newer": "only"}, [run_of("dense", 1.0, 0)])
    _, page = rendered(store)
    assert "Experiment newer is none that has tables here" in page


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        json.dumps({"experiment": "main", "scale": "small"}),
        json.dumps({"experiment": "main", "scale": "small", "studies": ["final"]}),
        json.dumps({"experiment": "main", "scale": "small", "studies": {"main": "other"}}),
    ],
)
def test_a_damaged_experiment_is_one_line(tmp_path: Path, content: str) -> None:
    store = write(tmp_path, "final", "main", STUDIES, [run_of("dense", 1.0, 0)])
    store.experiment_file.write_text(content)
    with pytest.raises(UsageError) as caught:
        rendered(store)
    assert "\n" not in str(caught.value)
    assert str(store.experiment_file) in str(caught.value)


def test_a_damaged_study_beside_it_is_only_said_to_be_missing(tmp_path: Path) -> None:
    beside = write(tmp_path, "rates", "main", STUDIES, [run_of("dense", 1.0, 0)])
    path = beside.folder / "runs" / "dense-1_0-0.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    _, page = rendered(write(tmp_path, "final", "main", STUDIES, main_runs()))
    assert "Missing, stage learning-rates: cannot read" in page
