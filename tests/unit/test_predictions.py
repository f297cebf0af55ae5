"""Predictions beside the records: what is read, what is refused in one line, which run they fit."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.store import StudyStore
from reports.contenders import group
from reports.load import load
from reports.predicted import of_contender, wholes, without_contender
from reports.predictions import Prediction, is_device, read_predictions
from tests.unit.reports_fixture import run_row, write_study

ROW: dict[str, Any] = {
    "workload": "vit-digits",
    "method": "barter",
    "density": 0.3,
    "batch_size": 64,
    "kind": "ordinary",
    "device": "cpu",
    "predicted_peak_allocated_bytes": 1000,
    "predicted_step_ms": 5.0,
}


def predictions(tmp_path: Path, content: Any) -> tuple[Prediction, ...]:
    store = StudyStore(tmp_path, "demo")
    store.folder.mkdir(parents=True, exist_ok=True)
    store.predictions_file.write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )
    return read_predictions(store)


def test_rows_as_a_list_or_with_a_version(tmp_path: Path) -> None:
    plain = predictions(tmp_path, [ROW | {"what_else": 1}])
    assert plain == predictions(tmp_path, {"schema_version": 1, "rows": [ROW]})
    assert plain == (
        Prediction("vit-digits", "barter", 0.3, 64, "ordinary", "cpu", 1000, 5.0, execution=()),
    )


def test_a_study_without_the_file_has_none(tmp_path: Path) -> None:
    assert read_predictions(StudyStore(tmp_path, "demo")) == ()


def test_a_cost_may_be_missing_and_a_row_without_any_is_left_out(tmp_path: Path) -> None:
    peak_only = {key: value for key, value in ROW.items() if key != "predicted_step_ms"}
    neither = ROW | {"kind": "update", "predicted_step_ms": None}
    neither["predicted_peak_allocated_bytes"] = None
    (found,) = predictions(tmp_path, [peak_only, neither])
    assert (found.peak_allocated_bytes, found.step_ms) == (1000, None)


def test_options_are_named_as_in_reports(tmp_path: Path) -> None:
    (found,) = predictions(tmp_path, [ROW | {"method": "rigl:interval=5:overhead=official"}])
    assert found.name == "rigl [interval=5, overhead=official]"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not valid JSON"),
        ("3", "is no list of predictions"),
        ({"rows": {}}, "is no list of predictions"),
        ({"schema_version": 2, "rows": []}, "schema version 2, newer than this program's 1"),
        ([ROW, 3], "row 2: it is no object"),
        ([{"method": "dense"}], "row 1: workload, kind, device, density, batch_size missing"),
        ([ROW | {"device": None}], "row 1: device takes a text, not None"),
        ([ROW | {"gpu": 3}], "row 1: gpu takes a text, not 3"),
        ([ROW | {"density": "0.3"}], "row 1: density takes a number, not '0.3'"),
        ([ROW | {"predicted_step_ms": -1}], "row 1: predicted_step_ms is -1: it must be above 0"),
        ([ROW | {"predicted_step_ms": float("nan")}], "row 1: predicted_step_ms is nan"),
        ([ROW | {"kind": "collecting+warm_up"}], "row 1: kind 'collecting+warm_up' is neither"),
        ([ROW | {"kind": "ordinary+update"}], "row 1: kind 'ordinary+update' is neither"),
        ([ROW, ROW | {"predicted_step_ms": 6}], "row 2: predicts the same as row 1"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        predictions(tmp_path, content)
    text = str(caught.value)
    assert "predictions.json" in text
    assert said in text
    assert "\n" not in text


def test_a_folder_in_its_place_is_one_line(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "demo")
    store.predictions_file.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"cannot read .*predictions\.json"):
        read_predictions(store)


@pytest.mark.parametrize(
    ("predicted", "device", "name", "same"),
    [
        ("cpu", "cpu", "Example CPU", True),
        ("cuda", "cuda", "NVIDIA L40", True),
        ("L40", "cuda", "NVIDIA L40", True),
        ("H200 SXM5 141GB HBM3e", "cuda", "NVIDIA H200", True),
        ("A100 SXM4 40GB", "cuda", "NVIDIA A100-SXM4-40GB", True),
        ("A100 SXM4 40GB", "cuda", "NVIDIA A100-SXM4-80GB", False),
        ("L40", "cuda", "NVIDIA L40S", False),
        ("cuda", "cpu", "Example CPU", False),
        ("cpu", "cuda", "NVIDIA L40", False),
        ("L40", "cuda", None, False),
        ("NVIDIA", "cuda", "NVIDIA L40", False),
    ],
)
def test_the_device_that_a_prediction_is_for(
    predicted: str, device: str, name: str | None, same: bool
) -> None:
    assert is_device(predicted, device, name) is same


def test_a_prediction_is_of_a_contender_in_its_setting(tmp_path: Path) -> None:
    runs = [run_row("barter", 0.3, 0), run_row("static", 0.3, 0)]
    contenders = group(load(write_study(tmp_path, runs)).shown)
    barter = next(c for c in contenders if c.method == "barter")
    rows = [
        ROW | changes
        for changes in (
            {},
            {"workload": "cct-digits"},
            {"density": 0.5},
            {"batch_size": 65},
            {"device": "L40"},
            {"method": "barter:transfer_multiplier=6"},
            {"attention": "math"},  # of the run it is auto
            {"attention": "auto", "compile": False, "tf32": False},
        )
    ]
    found = predictions(tmp_path, rows)
    assert of_contender(found, barter) == [found[0], found[7]]
    assert without_contender(found, contenders).startswith(
        "Predictions without a measured counterpart: 6 of 8"
    )
    assert without_contender(found[:1], contenders) == ""


def test_the_whole_run_has_the_largest_peak_and_every_kind_as_often_as_it_had_it(
    tmp_path: Path,
) -> None:
    """Of 180 timed steps 6 are updates, 54 collecting and 120 ordinary."""
    (barter,) = group(load(write_study(tmp_path, [run_row("barter", 0.3, 0)])).shown)
    rows = [
        ROW,
        ROW | {"kind": "collecting", "predicted_step_ms": 6.0},
        ROW
        | {"kind": "collecting+update", "predicted_step_ms": 12.0}
        | {"predicted_peak_allocated_bytes": 1300},
    ]
    (whole,) = wholes(predictions(tmp_path, rows), barter)
    assert whole.kinds == 3
    assert whole.peak_allocated_bytes == 1300
    assert whole.step_ms == pytest.approx((120 * 5 + 54 * 6 + 6 * 12) / 180)
    (part,) = wholes(predictions(tmp_path, rows[:2]), barter)  # updates were not predicted
    assert (part.peak_allocated_bytes, part.step_ms) == (None, None)
    twice = [*rows, ROW | {"kind": "update"}]  # both are what the records count as an update
    (ambiguous,) = wholes(predictions(tmp_path, twice), barter)
    assert (ambiguous.peak_allocated_bytes, ambiguous.step_ms) == (1300, None)


def test_a_model_of_gpu_counts_before_the_kind_of_device(tmp_path: Path) -> None:
    (found,) = predictions(tmp_path, [ROW | {"device": "cuda", "gpu": "L40"}])
    assert found.device == "L40"
    (found,) = predictions(tmp_path, [ROW | {"gpu": None}])
    assert found.device == "cpu"


def test_what_bench_plan_prints_is_read(tmp_path: Path) -> None:
    """Its rows as they are, those with a reason in place of figures among them."""
    from bench.predict.rows import predicted_rows
    from bench.predict.target import Target
    from bench.study_file import study_spec

    given = {"methods": "dense,rigl:overhead=official", "density": "0.3", "steps": 40}
    rows = predicted_rows(study_spec(None, given), Target("cpu", None))
    assert [row["method"] for row in rows if row["reason"] is None] == ["dense"]
    assert len(rows) > 1
    (found,) = predictions(tmp_path, rows)
    assert (found.method, found.kind, found.device) == ("dense", "ordinary", "cpu")
    assert found.peak_allocated_bytes == rows[0]["predicted_peak_allocated_bytes"]
