"""The report of a study timed side by side: tables, picture, and what is said of bad runs."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bench.errors import UsageError
from bench.reason_codes import FOREIGN_CPU_LOAD, TOO_FEW_LAUNCHES, worded
from bench.schema import CONTENDER
from bench.store import StudyStore
from reports.captions import SEQUENTIAL
from reports.load import NO_UPDATE, load
from reports.page import render
from reports.page_time import make_tables
from reports.plots_time import ratio_to_dense
from reports.side_by_side import Comparison, compared, widest_half_width
from reports.summary_time import outliers
from reports.table import Table
from reports.verdicts import Verdict
from reports.writers import csv_text, markdown
from tests.unit.reports_fixture import Row, run_row, tables_of
from tests.unit.time_fixture import (
    LAUNCHES,
    ROUNDS,
    TOTAL_STEPS,
    UPDATE_MS,
    UPDATES,
    demo_runs,
    timed_run,
    timed_tables,
    true_step_ms,
    write_timed,
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    return write_timed(tmp_path_factory.mktemp("results"), demo_runs())


def comparison_of(store: StudyStore) -> Comparison:
    _, comparisons = compared(load(store))
    assert len(comparisons) == 1
    return comparisons[0]


def tables_by_key(store: StudyStore) -> dict[str, Table]:
    records, comparisons = compared(load(store))
    return {table.key: table for table in make_tables(records, comparisons)}


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def from_csv(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


def rendered(store: StudyStore, width: int = 120) -> tuple[dict[str, Path], str, str]:
    out = io.StringIO()
    written = render(store, Console(width=width, file=out, force_terminal=False))
    files = {path.name: path for path in written}
    return files, out.getvalue(), files["report.md"].read_text(encoding="utf-8")


def write_one(store: StudyStore, run: Row, **tables: Any) -> None:
    store.write_run(run["run_id"], timed_tables(run) | tables)


# -------------------------------------------------------------------------- figures


def test_without_noise_ratios_are_exact_however_the_machine_drifts(tmp_path: Path) -> None:
    comparison = comparison_of(write_timed(tmp_path, demo_runs()[:3], noise=0.0))
    assert comparison.again is not None
    assert (comparison.again.value, comparison.again.low) == pytest.approx((1, 1))
    dense, static, barter = comparison.contenders
    assert comparison.dense is dense
    for contender, name in ((static, "static"), (barter, "barter")):
        pair = comparison.pair(contender, dense)
        assert pair is not None
        ratio = pair.judged.ratio
        expected = true_step_ms(name, 0.3) / 10
        assert (ratio.value, ratio.low, ratio.high) == pytest.approx([expected] * 3)
        assert (ratio.runs, ratio.steps) == (LAUNCHES, LAUNCHES * ROUNDS)
        assert pair.judged.verdict is Verdict.FASTER
        assert pair.median_ratio is not None
        assert pair.median_ratio.value == pytest.approx(expected)
    turned = comparison.pair(dense, static)
    assert turned is not None
    assert turned.judged.ratio.value == pytest.approx(2.0)
    assert turned.judged.verdict is Verdict.SLOWER
    assert comparison.pair(dense, dense) is None


def test_update_cost_is_that_of_the_window_beyond_its_steps(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:3], noise=0.0, drift=0.0)
    barter = comparison_of(store).contenders[2]
    assert barter.update is not None
    assert barter.update.per_update_ms.value == pytest.approx(UPDATE_MS)
    assert barter.update.per_step_ms.value == pytest.approx(UPDATE_MS * UPDATES / TOTAL_STEPS)
    assert barter.update.per_run_s.value == pytest.approx(UPDATE_MS * UPDATES / 1000)
    assert (barter.update.updates, barter.update.windows) == (UPDATES, 2 * LAUNCHES * ROUNDS)
    (row,) = from_csv(tables_by_key(store)["update_cost"])
    assert float(row["update_ms"]) == pytest.approx(UPDATE_MS)
    assert float(row["update_s_per_run_low"]) == pytest.approx(UPDATE_MS * UPDATES / 1000)


def test_the_width_is_that_of_the_widest_ratio(demo: StudyStore) -> None:
    comparison = comparison_of(demo)
    ratios = [comparison.again, *(pair.judged.ratio for pair in comparison.pairs)]
    ids = [run["run_id"] for run in demo_runs()]
    widths = [(e.high - e.low) / 2 / e.value for e in ratios if e and e.low and e.high]
    assert len(widths) == 4
    assert widest_half_width(demo, ids) == pytest.approx(max(widths))
    dense = widest_half_width(demo, ids[:1])  # a study of one has its A/A
    assert dense == pytest.approx(widths[0])
    assert widest_half_width(demo, [ids[3]]) is None


def test_a_width_is_unknown_while_a_ratio_is(tmp_path: Path) -> None:
    runs = demo_runs()[:2]
    store = write_timed(tmp_path, runs, launches=1, rounds=2)
    assert widest_half_width(store, [run["run_id"] for run in runs]) is None


def test_outliers_lie_outside_tukeys_fences() -> None:
    # Quartiles 2 and 4: fences at -1 and 7.
    assert outliers([1, 2, 3, 4, 7]) == 0
    assert outliers([1, 2, 3, 4, 7.1]) == 1
    assert outliers([-1.1, 2, 3, 4, 5]) == 1
    assert outliers([]) == 0


def test_an_outlying_block_is_counted_and_kept(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:2], noise=0.001, drift=0.0)
    static = timed_run("static", 0.3)
    tables = timed_tables(static, noise=0.001, drift=0.0)
    tables["blocks"][7]["step_ms"] = [50.0] * 8
    store.write_run(static["run_id"], tables)
    row = from_csv(tables_by_key(store)["step_time_side_by_side"])[1]
    assert row["flagged_blocks"] == "1"
    assert float(row["step_mean_ms"]) == pytest.approx(5 + 45 / 15, rel=0.01)


# --------------------------------------------------------------------------- tables


def test_the_tables_of_a_study_timed_side_by_side(demo: StudyStore) -> None:
    files, text, page = rendered(demo)
    stems = {
        *("ledger", "ledger_bytes"),
        *("step_time_side_by_side", "pairs_side_by_side", "kinds_side_by_side", "update_cost"),
        *("memory", "memory_by_cause", "memory_by_segment", "compute", "operations", "parameters"),
        *("outside_the_clock", "left_out", "configuration"),
    }
    assert set(files) == {
        *("ledger.png", "ledger.svg"),
        *("report.md", "ratio_to_dense.png", "ratio_to_dense.svg", "memory.png", "memory.svg"),
        *(f"{stem}{suffix}" for stem in stems for suffix in (".csv", ".tex")),
    }
    for said in (
        *("Step time side by side", "Kinds of step, side by side", "Update cost"),
        *("Outside the clock", "checkpoint export", "Example CPU", "Timing stopped: target"),
        *("A/A: dense 1.0, entered twice", "noise floor ±", "hierarchical bootstrap (launches"),
        *(
            "launches / rounds (in all), of every contender 5 / 15",
            "family of 3 pairs",
            "same means within ±2.0 %",
        ),
        *("Left out: 1 failed and 1 skipped of the workload's 5 runs", "paired by round"),
        "its process died (exit code -9)",
    ):
        assert said in page, said
        assert said in " ".join(text.split()), said
    assert SEQUENTIAL not in page
    assert "hierarchical bootstrap (runs" not in page
    assert "Contenders were timed side by side" in page  # how the intervals are made


def test_step_time_says_everything_beside_the_ratio(demo: StudyStore) -> None:
    rows = from_csv(tables_by_key(demo)["step_time_side_by_side"])
    assert [row["method"] for row in rows] == ["dense", "static", "barter"]
    assert [row["verdict"] for row in rows] == ["reference", "faster", "faster"]
    assert rows[0]["ratio_to_dense"] == rows[0]["speedup_over_dense"] == "1.0"
    for row in rows[1:]:
        low, value, high = (float(row[f"ratio_to_dense{end}"]) for end in ("_low", "", "_high"))
        assert low < value < high
        assert value == pytest.approx(true_step_ms(row["method"], 0.3) / 10, rel=0.02)
        assert float(row["speedup_over_dense"]) == pytest.approx(1 / value)
        assert float(row["speedup_over_dense_low"]) == pytest.approx(1 / high)
        assert 0 < float(row["noise_floor_percent"]) < float(row["visible_percent"]) < 10
    head = markdown(tables_by_key(demo)["step_time_side_by_side"]).splitlines()[4]
    for title in ("active (of budget)", "launches / rounds", "median", "noise floor", "verdict"):
        assert title in head


def test_kinds_of_step_are_relative_to_denses_ordinary_one(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:3], noise=0.0)
    table = tables_by_key(store)["kinds_side_by_side"]
    rows = from_csv(table)
    assert [(row["method"], row["segment"]) for row in rows] == [
        ("dense", "ordinary"),
        ("static", "ordinary"),
        ("barter", "collecting"),
        ("barter", "ordinary"),
        ("barter", "update (window of 4 steps)"),
    ]
    ratios = [float(row["ratio_to_dense_ordinary"]) for row in rows]
    assert ratios == pytest.approx([1, 0.5, 0.6, 0.5, (4 * 6 + 8) / 40])
    assert [float(row["share_percent"]) for row in rows] == pytest.approx([100, 100, 30, 70, 3])
    assert [row["timed"] for row in rows] == ["120", "120", "120", "120", "30"]


def test_every_ordered_pair_is_in_the_csv(demo: StudyStore) -> None:
    rows = from_csv(tables_by_key(demo)["pairs_side_by_side"])
    assert len(rows) == 6
    by_pair = {(row["method"], row["relative_to_method"]): row for row in rows}
    forth, back = by_pair["static", "barter"], by_pair["barter", "static"]
    assert (forth["verdict"], back["verdict"]) == ("faster", "slower")
    assert float(forth["time_ratio"]) == pytest.approx(1 / float(back["time_ratio"]))
    assert float(forth["simultaneous_low"]) < float(forth["time_ratio_low"])
    assert float(forth["simultaneous_low"]) == pytest.approx(1 / float(back["simultaneous_high"]))
    assert (forth["launches"], forth["rounds"], forth["reason_codes"]) == ("5", "15", "")


def test_contenders_that_are_alike_are_the_same(tmp_path: Path) -> None:
    runs = [timed_run("dense", 1.0), timed_run("static", 0.8)]  # both 10 ms
    row = from_csv(tables_by_key(write_timed(tmp_path, runs, noise=0.001))["pairs_side_by_side"])[0]
    assert row["verdict"] == "same"


# ------------------------------------------------------------- what is not as it should be


def test_few_launches_are_marked_and_judged_nowhere(tmp_path: Path) -> None:
    runs = [run | {"stopped": "time limit"} for run in demo_runs()[:3]]
    files, _, page = rendered(write_timed(tmp_path, runs, launches=3))
    rows = read_csv(files["pairs_side_by_side.csv"])
    assert {row["verdict"] for row in rows} == {"too few launches"}
    assert {row["reason_codes"] for row in rows} == {"too_few_launches"}
    assert f"| caution | vit-digits | barter | 0.3 | 0 | 1 | {worded(TOO_FEW_LAUNCHES)} |" in page
    assert "No pair has 5 launches: there is no verdict." in page
    assert "Timing stopped: time limit." in page


def test_codes_stand_beside_rows_and_pairs(tmp_path: Path) -> None:
    dense, static, barter = demo_runs()[:3]
    static = static | {"reason_codes": [FOREIGN_CPU_LOAD]}
    files, _, page = rendered(write_timed(tmp_path, [dense, static, barter]))
    rows = read_csv(files["step_time_side_by_side.csv"])
    assert [row["reason_codes"] for row in rows] == ["", FOREIGN_CPU_LOAD, ""]
    codes = {
        (row["method"], row["relative_to_method"]): row["reason_codes"]
        for row in read_csv(files["pairs_side_by_side.csv"])
    }
    assert codes["dense", "barter"] == ""
    assert codes["dense", "static"] == codes["static", "dense"] == FOREIGN_CPU_LOAD
    matrix = [line for line in page.splitlines() if "faster (!)" in line or "slower (!)" in line]
    assert [line.split(" | ")[0] for line in matrix] == [
        "| dense 1.0",
        "| static 0.3",
        "| barter 0.3",
    ]
    assert f"(!): with a caution, explained at the end: static 0.3 ({FOREIGN_CPU_LOAD})." in page
    assert f"| caution | vit-digits | static | 0.3 | 0 | 1 | {worded(FOREIGN_CPU_LOAD)} |" in page


def test_without_codes_there_is_no_column_of_them(demo: StudyStore) -> None:
    table = tables_by_key(demo)["step_time_side_by_side"]
    assert "cautions" not in markdown(table)
    assert "(!)" not in markdown(tables_by_key(demo)["pairs_side_by_side"])


def test_one_launch_is_said_to_leave_out_what_differs_between_launches(tmp_path: Path) -> None:
    _, _, page = rendered(write_timed(tmp_path, demo_runs()[:2], launches=1))
    assert "One launch only, so that the interval covers only" in page


def test_without_a_second_entry_nothing_is_told_apart(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:2], roles=(CONTENDER,))
    _, _, page = rendered(store)
    assert "No A/A: no contender was entered twice" in page
    assert {pair.judged.verdict for pair in comparison_of(store).pairs} == {Verdict.AMBIGUOUS}
    assert comparison_of(store).pairs[0].codes == ["no_noise_floor"]


def test_a_study_without_dense_has_its_pairs_and_no_ratio_to_dense(tmp_path: Path) -> None:
    runs = [timed_run("static", 0.3), timed_run("barter", 0.3)]
    files, _, page = rendered(write_timed(tmp_path, runs, roles=("contender", "again")))
    assert "No valid dense run in this setting: no ratio to dense." in page
    assert "Left out: step time relative to dense, since no contender" in page
    assert "A/A: static 0.3 and barter 0.3, entered twice" in page
    rows = read_csv(files["pairs_side_by_side.csv"])
    assert [row["verdict"] for row in rows] == ["faster", "slower"]


def test_a_dynamic_method_without_an_update_is_in_no_ratio(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:2])
    barter = timed_run("barter", 0.3)
    tables = timed_tables(barter)
    for name in ("segments", "blocks"):
        tables[name] = [row for row in tables[name] if row["segment"] != "update"]
    write_one(store, barter, **tables)
    _, _, page = rendered(store)
    assert f"In no ratio: barter 0.3 ({NO_UPDATE})." in page
    assert "3 runs (2 used, 1 invalid)" in page
    assert len(comparison_of(store).pairs) == 1


def test_blocks_without_times_are_left_out_and_counted(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:1])
    static = timed_run("static", 0.3)
    tables = timed_tables(static)
    tables["blocks"][0]["step_ms"] = None
    tables["blocks"][1]["step_ms"] = []
    tables["blocks"][2]["step_ms"] = [float("nan"), 5.0]
    write_one(store, static, **tables)
    pair = comparison_of(store).pairs[0]
    assert (pair.judged.ratio.runs, pair.judged.ratio.steps) == (4, 12)
    assert pair.judged.verdict is Verdict.TOO_FEW
    assert "3 blocks without a time" in pair.codes


def test_a_run_without_any_block_is_shown_and_in_no_ratio(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:2])
    write_one(store, timed_run("barter", 0.3), segments=[], blocks=[])
    _, _, page = rendered(store)
    assert "barter 0.3 (no round was timed whole)" in page
    assert len(comparison_of(store).pairs) == 1


def test_windows_in_place_of_steps_that_were_not_timed_have_no_cost(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:1])
    barter = timed_run("barter", 0.3)
    segments = timed_tables(barter)["segments"]
    segments[-1]["base"] = ["dense_gradient"]
    write_one(store, barter, segments=segments)
    _, _, page = rendered(store)
    assert "In no ratio: barter 0.3 (no round was timed whole)." in page
    assert "Update cost" not in page


def test_launches_of_several_seeds_are_all_launches(tmp_path: Path) -> None:
    runs = [timed_run(m, d, seed) for seed in (0, 1) for m, d in (("dense", 1.0), ("static", 0.3))]
    comparison = comparison_of(write_timed(tmp_path, runs))
    assert [len(t.cells) for t in comparison.contenders] == [2 * LAUNCHES * ROUNDS] * 2
    assert comparison.pairs[0].judged.ratio.runs == 2 * LAUNCHES
    assert comparison.floor is not None
    assert comparison.floor.launches == 2 * LAUNCHES


def test_how_it_went_is_said_where_it_is_unusual(tmp_path: Path) -> None:
    runs = [run | {"side_by_side": False, "stopped": None} for run in demo_runs()[:2]]
    _, _, page = rendered(write_timed(tmp_path, runs))
    assert "every block was timed in a fresh process of its own" in page
    assert "Timing stopped: interrupted before its end." in page


def test_other_settings_are_not_compared(tmp_path: Path) -> None:
    runs = [*demo_runs()[:2], *(run | {"threads": 4} for run in demo_runs()[2:3])]
    files, _, page = rendered(write_timed(tmp_path, runs))
    assert "differ in threads (2 and 4) are not compared" in page
    assert "In no speed-up" not in page
    assert any(name.startswith("ratio_to_dense-vit-digits-1") for name in files)
    assert len(read_csv(files["pairs_side_by_side.csv"])) == 2


def test_all_failed_is_still_a_report(tmp_path: Path) -> None:
    files, _, page = rendered(write_timed(tmp_path, demo_runs()[3:]))
    assert set(files) == {
        *("report.md", "left_out.csv", "left_out.tex"),
        *("configuration.csv", "configuration.tex"),
    }
    assert "no topology at this density" in page


def test_a_study_of_both_modes_is_refused(tmp_path: Path) -> None:
    store = write_timed(tmp_path, demo_runs()[:2])
    trained = run_row("barter", 0.3, 0)
    store.write_run(trained["run_id"], tables_of(trained))
    with pytest.raises(UsageError, match="runs of modes time and train"):
        load(store)


def test_a_failed_run_that_names_no_mode_changes_nothing(tmp_path: Path) -> None:
    runs = [*demo_runs()[:3], demo_runs()[3] | {"mode": None}]
    assert load(write_timed(tmp_path, runs)).mode == "time"


# -------------------------------------------------------------------------- picture


def test_the_picture_has_every_ratio_and_the_band_of_noise(demo: StudyStore) -> None:
    comparison = comparison_of(demo)
    figure = ratio_to_dense(comparison)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["dense 1.0, again (A/A)", "static 0.3", "barter 0.3"]
    assert [text.get_text().split()[-1] for text in axes.texts[1:]] == ["faster", "faster"]
    assert comparison.floor is not None
    (band,) = axes.patches
    ends = band.get_window_extent().transformed(axes.transData.inverted())
    assert ends.x1 == pytest.approx(1 + comparison.floor.fraction)
    low, high = axes.get_xlim()
    assert low < 0.49
    assert high > ends.x1
    assert "n = 5 launches" in figure.get_suptitle()


def test_ratios_that_are_all_one_can_be_drawn(tmp_path: Path) -> None:
    runs = [timed_run("dense", 1.0), timed_run("static", 0.8)]
    assert "ratio_to_dense.png" in rendered(write_timed(tmp_path, runs, noise=0.0))[0]
