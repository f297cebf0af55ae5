"""Tables, picture and page of a study at equal cost."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench.store import StudyStore
from reports.load import load
from reports.matched import Matched, match_study
from reports.matched_costs import COSTS
from reports.page_matched import render_matched
from reports.plots_matched import best_so_far
from reports.table import Section, Table
from reports.tables_matched import at_equal_cost, to_target
from reports.writers import csv_text
from tests.unit.matched_fixture import learned, small_study, written


def matched(store: StudyStore, cost: str = "flops") -> Matched:
    return match_study(load(store), COSTS[cost])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    return written(tmp_path_factory.mktemp("results"), small_study())


def cells(table: Table) -> list[list[str]]:
    (section,) = table.sections
    return rows_of(section)


def rows_of(section: Section) -> list[list[str]]:
    return [[column.cell(row) for column in section.columns] for row in section.rows]


def records_of(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


# ------------------------------------------------------------------- at equal cost


def test_accuracy_at_equal_compute(small: StudyStore) -> None:
    table = at_equal_cost(matched(small))
    (section,) = table.sections
    assert [column.title for column in section.columns] == [
        *("method", "density", "active (of budget)", "seeds", "steps of its schedule"),
        *("cost at its end, MFLOPs", "of its schedule at C, %", "top-1 at C, % [95%]"),
        *("minus barter, points [95%]", "verdict"),
    ]
    # Two values a apart: Student's t with one degree of freedom reaches 12.706 a / 2.
    assert cells(table) == [
        [
            *("dense", "1.0", "99,990 (1.000)", "2", "40", "80.00", "50.0 (mid-schedule)"),
            *("70.50 [64.15, 76.85]", "–", "–"),  # noqa: RUF001
        ],
        [
            *("static", "0.5", "49,990 (1.000)", "2", "40", "40.00", "100.0"),
            *("82.50 [76.15, 88.85]", "-3.50 [-9.85, +2.85]", "undecided"),
        ],
        [
            *("barter", "0.5", "49,990 (1.000)", "2", "40", "40.00", "100.0"),
            *("86.00 [73.29, 98.71]", "reference", "reference"),
        ],
    ]
    assert section.caption.endswith("batch 64, 40 steps per run; C = 40.00 MFLOPs")
    assert section.notes[0] == (
        "C = 40.00 MFLOPs is the largest cost that all of the 6 runs reached. There ended: "
        "static 0.5, barter 0.5."
    )
    assert "learning rate was not annealed" in section.notes[1]
    assert section.notes[2:] == ["Left out: none of the workload's runs."]
    assert table.notes[0] == (
        "Training compute: FLOPs = 2 MACs, executed forward and backward; that of a run which it "
        "continues included."
    )
    first = records_of(table)[0]
    assert (first["matched_cost_flops"], first["end_flops"]) == ("40000000.0", "80000000.0")
    assert (first["total_steps"], first["schedule_done_percent"]) == ("40", "50.0")


def test_no_verdict_is_a_rank_and_several_say_that_they_hold_together(tmp_path: Path) -> None:
    lead = (2.0, 1.0, 2.0, 1.0, 2.0)
    runs = [
        learned(method, 0.5, seed, [50.0 + seed + sign * lead[seed]])
        for seed in range(5)
        for method, sign in (("barter", 0), ("rigl", 1), ("set", -1))
    ]
    table = at_equal_cost(matched(written(tmp_path, runs)))
    assert {row["method"]: row["verdict"] for row in records_of(table)} == {
        "barter": "reference",
        "rigl": "higher",
        "set": "lower",
    }
    assert "The 2 intervals of differences hold together with 95 % (Bonferroni)." in table.notes[1]
    assert "(mid-schedule)" not in " ".join(table.sections[0].notes)


def test_a_run_that_was_not_evaluated_by_then_is_shown(tmp_path: Path) -> None:
    late = [
        learned(
            "rigl",
            0.5,
            seed,
            [60.0, 70.0],
            run_id=f"late-{seed}",
            start="continue",
            start_run_id="elsewhere",
            steps_before=steps,
            training_macs_before=steps * 5e5,
        )
        for seed, steps in ((0, 40), (1, 10))
    ]
    table = at_equal_cost(matched(written(tmp_path, [*small_study(), *late])))
    row = cells(table)[-1]
    assert row[:2] == ["rigl", "0.5"]
    # Seed 1 went on after ten steps: at 40 MFLOPs (40 steps) it has done all of its 20.
    assert row[6:] == ["100.0", "not evaluated by then: 1 of 2", "–", "–"]  # noqa: RUF001


def test_left_out_runs_are_named(tmp_path: Path) -> None:
    runs = small_study()
    for run in runs[2:4]:
        run["steps"][5]["step_ms"] = None
    (section,) = at_equal_cost(matched(written(tmp_path, runs), "time")).sections
    assert section.notes[-1] == (
        "Not in it, with steps without a time: static 0.5 seed 0, static 0.5 seed 1."
    )
    failed = learned("set", 0.5, 0, [50.0], status="failed", reason="x")["runs"]
    runs.append({"runs": failed})
    (section,) = at_equal_cost(matched(written(tmp_path, runs), "time")).sections
    assert section.notes[-1] == "Left out: 1 failed of the workload's 7 runs (set 0.5 seed 0)."


def test_schedules_of_several_lengths_are_in_the_caption(tmp_path: Path) -> None:
    runs = [
        *small_study(),
        learned("barter", 0.5, 0, [40.0, 80.0], run_id="short", schedule_shortened=True),
    ]
    (section,) = at_equal_cost(matched(written(tmp_path, runs), "steps")).sections
    text = "20 steps per run (schedule shortened from 200) or 40 steps per run; C = 20 steps"
    assert section.caption.endswith(text)
    assert [row["total_steps"] for row in section.rows] == [40, 40, 20, 40]
    assert "There ended: barter 0.5, 20 steps." in section.notes[0]
    minus = [str(row.get("verdict")) for row in section.rows]
    same = "undecided (equal difference in all seeds)"
    assert minus == ["None", same, "reference", "reference"]


# ----------------------------------------------------------------------- to a target


def test_cost_to_the_accuracy_that_every_contender_reaches_on_average(small: StudyStore) -> None:
    table = to_target(matched(small), None)
    (section,) = table.sections
    assert section.caption.endswith("; target 82.50 %")
    assert "chosen as the lowest of the contenders' mean best top-1" in section.notes[0]
    assert [row[5:] for row in cells(table)] == [
        ["2 of 2", "80.00"],  # both at the last evaluation: no spread, no interval
        ["1 of 2", "not reached by 1 of 2 (best 82.00 %)"],
        ["2 of 2", "40.00"],
    ]
    dense, static, _ = records_of(table)
    assert (dense["target_flops"], dense["target_top1_percent"]) == ("80000000.0", "82.5")
    assert (static["reached"], static["target_flops"]) == ("1", "")


def test_cost_to_a_target_that_was_asked_for(small: StudyStore) -> None:
    table = to_target(matched(small, "time"), 71.0)
    (section,) = table.sections
    assert section.notes[0] == "Target: 71.00 % top-1, as asked for."
    # Dense of seed 0 needs 40 steps (116 ms), of seed 1 it needs 20 (76 ms).
    dense, static, barter = cells(table)
    assert dense[5:] == ["2 of 2", "0.09600 [0, 0.3501]"]
    assert static[6] == "0.05300 [0, 0.1165]"  # 30 and 40 steps: 48 and 58 ms
    assert barter[6] == "0.06000"
    assert float(records_of(table)[0]["target_s_low"]) < 0, "the file is not cut"
    high = to_target(matched(small), 99.0)
    assert [row[6] for row in cells(high)] == [
        "not reached by 2 of 2 (best 91.00 %)",
        "not reached by 2 of 2 (best 83.00 %)",
        "not reached by 2 of 2 (best 87.00 %)",
    ]


# -------------------------------------------------------------------------- picture


def test_the_picture_shows_what_was_best_so_far_and_where_all_are_matched(
    small: StudyStore,
) -> None:
    study = matched(small)
    figure = best_so_far(study, study.settings[0])
    (axes,) = figure.axes
    assert axes.get_xlabel() == "cumulative training compute, MFLOPs"
    assert axes.get_title(loc="left") == "density 0.5"
    bold = [line for line in axes.lines if line.get_linewidth() > 1.5]
    assert {line.get_drawstyle() for line in bold} == {"steps-post"}
    x, y = (np.asarray(values, float) for values in bold[0].get_data())
    assert x.tolist() == [20, 40, 60, 80]
    assert y.tolist() == [51.0, 70.5, 71.0, 90.5]  # the dip of dense is gone
    (vertical,) = [line for line in axes.lines if line.get_linewidth() == 1.2]
    assert vertical.get_xdata() == [40.0, 40.0]
    assert axes.get_xscale() == "log"
    assert "C = 40.00 MFLOPs" in figure.get_suptitle()
    steps = matched(small, "steps")
    (axes,) = best_so_far(steps, steps.settings[0]).axes
    assert axes.get_xlabel() == "cumulative number of steps"


# ----------------------------------------------------------------------------- page


def test_files_stand_beside_the_report_which_stays(tmp_path: Path) -> None:
    there = learned("dense", 1.0, 0, [60.0, 70.0], run_id="there", device_name="Other CPU")
    store = written(tmp_path, small_study())
    store.report_folder.mkdir()
    (store.report_folder / "report.md").write_text("mine")
    out = io.StringIO()
    first = render_matched(store, Console(width=150, file=out), COSTS["flops"])
    names = {path.name for path in first}
    assert names == {
        "match_flops.md",
        *(f"match_flops{suffix}" for suffix in (".png", ".svg", ".csv", ".tex")),
        *(f"match_target_flops{suffix}" for suffix in (".csv", ".tex")),
    }
    assert "There ended: static 0.5, barter 0.5." in " ".join(out.getvalue().split())
    page = first[0].read_text()
    for path in first[1:]:
        assert f"({path.name})" in page
    assert "# demo at equal training compute" in page
    assert "| -3.50 [-9.85, +2.85] | undecided |" in page
    timed = render_matched(store, Console(width=150, file=out), COSTS["time"], 70.0)
    store.write_run("there", there)
    again = render_matched(store, Console(width=150, file=out), COSTS["flops"])
    pictures = {path.name for path in again if path.suffix == ".png"}
    assert pictures == {"match_flops-vit-digits-1.png", "match_flops-vit-digits-2.png"}
    left = {path.name for path in store.report_folder.iterdir()}
    assert left == {"report.md", *(path.name for path in (*timed, *again))}
    assert (store.report_folder / "report.md").read_text() == "mine"
