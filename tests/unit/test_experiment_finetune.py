"""Fine-tuning and its continuation: one table, one line per method."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from reports import experiment_finetune
from reports.courses import courses
from reports.load import Standing
from reports.plots_continued import accuracy_against_compute
from tests.unit.experiment_fixture import all_notes, family, rows_by, run_of, shown, write
from tests.unit.reports_fixture import DENSE_MACS, Row

STUDIES = {"pretraining": "source", "finetune": "tuned", "matched-compute": "matched"}
SPENT = DENSE_MACS * 0.3 * 200 * 64
"""MACs of a run of 200 steps at density 0.3."""


def tuned_runs(**changes) -> list[Row]:
    """BARTER is 0.4 and 0.5 points above Static and RigL."""
    start = {"start": "finetune", "workload": "vit-cifar100-finetune"}
    cases = [("dense", 1.0), *((m, 0.3) for m in ("static", "barter", "rigl"))]
    return [
        run_of(method, density, seed, **start, start_run_id=f"source-{seed}", **changes)
        for method, density in cases
        for seed in range(2)
    ]


def continued_runs() -> list[Row]:
    """400 steps more, after which BARTER is 2 and 2.1 points better, and Static 1 point."""
    runs = []
    for run in tuned_runs():
        if run["method"] not in ("barter", "static"):
            continue
        more = 2 + run["seed"] / 10 if run["method"] == "barter" else 1.0
        runs.append(
            run
            | {
                "run_id": f"{run['run_id']}-on",
                "start": "continue",
                "start_run_id": run["run_id"],
                "total_steps": 400,
                "steps_before": 200,
                "training_macs_before": SPENT,
                "training_macs_total": 2 * SPENT,
                "executed_updates": 0,
                "test_top1_percent": run["test_top1_percent"] + more,
            }
        )
    return runs


def write_all(root: Path, continued: bool = True):
    curves = {run["run_id"]: [20.0, 50.0] for run in tuned_runs()}
    store = write(root, "tuned", "finetune", STUDIES, tuned_runs(), curves)
    if continued:
        more = {run["run_id"]: [55.0, 60.0] for run in continued_runs()}
        write(root, "matched", "finetune", STUDIES, continued_runs(), more)
    return store


def test_equal_epochs_and_matched_compute_stand_beside_each_other(tmp_path: Path) -> None:
    found = family(write_all(tmp_path))
    table, _ = experiment_finetune.tables(found)
    rows = rows_by(table, "method", "phase")
    barter = rows["barter", "matched compute"]
    assert shown(table, barter, "epochs") == "30.00"  # (200 + 400) / 20
    assert shown(table, barter, "flops_of_dense") == "0.900"  # 0.3 * 600 / 200
    assert shown(table, rows["barter", "equal epochs"], "flops_of_dense") == "0.300"
    assert shown(table, rows["rigl", "equal epochs"], "published_top1_percent") == "68.38 (derived)"
    assert shown(table, barter, "published_top1_percent") == "70.39"
    assert shown(table, barter, "published_macro_f1_percent") == "70.18"
    assert rows["static", "matched compute"]["published_top1_percent"] is None
    assert barter["seeds"] == 2
    matched = found.studies["matched-compute"].records
    assert all(run.standing is Standing.USED for run in matched.runs)  # no update is expected
    assert "Missing, stage pretraining: study source has not been started." in all_notes(table)


def test_differences_to_rigl_and_static(tmp_path: Path) -> None:
    _, table = experiment_finetune.tables(family(write_all(tmp_path)))
    rows = rows_by(table, "method", "phase", "over_method", "over_phase")
    equal, matched = "equal epochs", "matched compute"
    assert set(rows) == {
        ("static", equal, "rigl", equal),
        ("static", matched, "rigl", equal),
        ("barter", equal, "rigl", equal),
        ("barter", equal, "static", equal),
        ("barter", matched, "rigl", equal),
        ("barter", matched, "static", matched),
    }
    best = rows["barter", matched, "rigl", equal]
    assert best["difference_points"].value == pytest.approx(2.5)  # (2.4 + 2.6) / 2
    assert shown(table, best, "published_difference_points") == "+2.01"
    derived = rows["barter", equal, "rigl", equal]
    assert shown(table, derived, "published_difference_points") == "+0.64 (derived)"
    over_static = rows["barter", matched, "static", matched]
    assert over_static["difference_points"].value == pytest.approx(1.5)  # (1.4 + 1.6) / 2
    assert over_static["published_difference_points"] is None
    # Standard error 0.1, one degree of freedom, six pairs: far from certain.
    assert best["verdict"] == "undecided"


def test_any_stage_may_be_the_only_one(tmp_path: Path) -> None:
    alone = family(write_all(tmp_path, continued=False))
    assert alone.missing == [
        "stage pretraining: study source has not been started",
        "stage matched-compute: study matched has not been started",
    ]
    assert all(course.matched is None for course in courses(alone))
    source = [run_of("dense", 1.0, seed) for seed in range(2)]
    store = write(tmp_path / "other", "source", "finetune", STUDIES, source)
    table, differences = experiment_finetune.tables(family(store))
    assert list(rows_by(table, "phase")) == ["pretraining"]
    assert not any(section.rows for section in differences.sections)
    orphans = write(tmp_path / "third", "matched", "finetune", STUDIES, continued_runs())
    table, _ = experiment_finetune.tables(family(orphans))
    assert {phase for _, phase in rows_by(table, "method", "phase")} == {"matched compute"}


def test_a_run_and_its_continuation_are_one_line(tmp_path: Path) -> None:
    found = family(write_all(tmp_path))
    ((_, _, figure, _),) = experiment_finetune.pictures(found)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [
        *("dense", "static", "barter", "rigl"),
        *("end of equal epochs", "dense run's compute"),
    ]
    budget = 2 * DENSE_MACS * 200 * 64
    unit = 1e9
    assert "GFLOPs" in axes.get_xlabel()
    second = [line for line in axes.lines if len(np.asarray(line.get_xdata())) == 3]
    assert len(second) == 2  # Static and BARTER: where the first ended, and two evaluations
    for line in second:
        x, y = (np.asarray(data, float) for data in line.get_data())
        assert x == pytest.approx(np.array([0.3, 0.6, 0.9]) * budget / unit)
        assert y.tolist() == [50.0, 55.0, 60.0]
    upright = [line for line in axes.lines if list(np.asarray(line.get_ydata())) == [0, 1]]
    assert np.asarray(upright[0].get_xdata())[0] == pytest.approx(budget / unit)


def test_synthetic_runs_say_so_and_draw_nothing(tmp_path: Path) -> None:
    none = {"synthetic_data": True, "test_top1_percent": None, "test_macro_f1_percent": None}
    store = write(tmp_path, "tuned", "finetune", STUDIES, tuned_runs(**none))
    found = family(store)
    table, differences = experiment_finetune.tables(found)
    row = rows_by(table, "method")["barter"]
    assert shown(table, row, "top1_percent") == "synthetic data"
    assert {row["verdict"] for row in rows_by(differences, "method").values()} == {"synthetic data"}
    here = courses(found)
    assert accuracy_against_compute(here[0].setting, here, found) is None
