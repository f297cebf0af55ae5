"""The ledger: promised against real, every figure marked."""

from pathlib import Path

import pytest

from bench.store import StudyStore
from reports.experiment_family import study_of
from reports.ledger import realised_percent
from reports.load import load
from reports.page_ledger import books_of, pictures
from reports.statistics import Estimate
from reports.writers import latex
from tests.unit.ledger_fixture import (
    cells,
    dense,
    figure_of,
    masked,
    predicted,
    rows_of,
    study,
    tables_in,
)
from tests.unit.reports_fixture import run_row
from tests.unit.time_fixture import timed_run, write_timed


@pytest.fixture
def three(tmp_path: Path) -> StudyStore:
    return study(tmp_path, [(dense(), 10.0), (run_row("static", 0.3, 0), 5.0), (masked(), 11.0)])


# ---------------------------------------------------------------------------- promised and real


def test_what_dense_static_and_a_masked_method_promise_and_keep(three: StudyStore) -> None:
    reference, static, rigl = cells(tables_in(three)["ledger"])
    assert reference["time / dense [95%]"] == "1 (reference) C"
    assert reference["step if as ideal MACs, ms"] == "–"  # noqa: RUF001
    # 0.3 of the MACs, half of the time: (1 - 0.5) / (1 - 0.3) = 71 % of what was promised.
    assert static["runs are"] == "executed compact"
    assert static["ideal MACs / dense"] == static["executed MACs / dense"] == "0.300 C"
    assert static["step if as ideal MACs, ms"] == static["step if as executed MACs, ms"] == "3.00 P"
    assert static["step measured, ms [95%]"].startswith("5.000 [")
    assert static["time / dense [95%]"].startswith("0.5000 [")
    assert static["time saved, % of promised [95%]"] == "71 [71, 71] C"
    # 29,990 of 99,990 active; 0.25 + 0.75 * 0.3 = 0.475 of the bytes: 0.525 / 0.70007 = 75 %.
    assert static["nominal bytes / dense"] == "0.300 C"
    assert static["peak bytes / dense"] == "0.475 C"
    assert static["bytes saved, % of promised"] == "75 C"
    # Ideal 0.4, executed 1, a tenth slower: -0.1 / 0.6 = -17 %; 1 MiB more than 64: -2 %.
    assert rigl["runs are"] == "simulated by masks"
    assert (rigl["ideal MACs / dense"], rigl["executed MACs / dense"]) == ("0.400 M", "1.00 M")
    assert rigl["step if as ideal MACs, ms"] == "4.00 P"
    assert rigl["step if as executed MACs, ms"] == "10.0 P"
    assert rigl["time saved, % of promised [95%]"] == "-17 [-17, -17] M"
    assert (rigl["nominal bytes / dense"], rigl["peak bytes / dense"]) == ("0.300 M", "1.02 M")
    assert rigl["bytes saved, % of promised"] == "-2 M"


def test_csv_says_in_words_how_each_number_came_about(three: StudyStore) -> None:
    table = tables_in(three)["ledger"]
    _, static, rigl = rows_of(table)
    assert float(static["step_by_ideal_macs_ms"]) == pytest.approx(3.0)
    assert static["step_by_ideal_macs_ms_is"] == "predicted"
    assert [float(static[f"time_ratio{end}"]) for end in ("", "_low")] == pytest.approx([0.5] * 2)
    assert static["time_ratio_is"] == static["ideal_macs_ratio_is"] == "executed compact"
    assert rigl["time_ratio_is"] == rigl["ideal_macs_ratio_is"] == "simulated by masks"
    unmarked = {"method", "density", "active_parameters", "savings_are"}
    columns = {column.key for column in table.sections[0].columns} - unmarked
    assert all(rigl[f"{key}_is"] for key in columns)
    assert "71 [71, 71] C" in latex(table)


def test_nominal_bytes_are_of_active_parameters_and_measured_ones_by_cause(
    three: StudyStore,
) -> None:
    _, static, rigl = cells(tables_in(three)["ledger_bytes"])
    # 29,990 float32: 0.114 MiB, Adam twice that. Measured: an eighth of 64 * 0.475 = 30.4 MiB.
    for row, mark in ((static, "C"), (rigl, "M")):
        assert row["parameters: nominal, MiB"] == row["gradients: nominal, MiB"] == f"0.114 {mark}"
        assert row["optimizer state: nominal, MiB"] == f"0.229 {mark}"
    assert static["parameters: measured, MiB"] == static["masks and scores, MiB"] == "3.800 C"
    assert static["sum measured, MiB"] == "30.400 C"
    assert rigl["parameters: measured, MiB"] == "9.000 M"


def test_a_saving_with_an_interval_has_one_as_a_share(tmp_path: Path) -> None:
    real = Estimate(0.5, low=0.4, high=0.8, runs=3)
    share = realised_percent(0.2, real)
    assert isinstance(share, Estimate)
    # Promised 0.8: 0.5 is 62.5 %, the dearest end (0.2) 25 %, the cheapest (0.6) 75 %.
    assert (share.value, share.low, share.high) == pytest.approx((62.5, 25.0, 75.0))
    assert realised_percent(0.2, 0.6) == pytest.approx(50.0)
    assert realised_percent(0.996, 0.9) is None  # hardly anything was promised
    assert realised_percent(None, 0.5) is None
    assert realised_percent(0.2, None) is None


def test_without_dense_there_is_no_ratio_and_no_picture(tmp_path: Path) -> None:
    store = study(tmp_path, [(run_row("static", 0.3, 0), 5.0)])
    table = tables_in(store)["ledger"]
    (row,) = cells(table)
    assert "No valid dense run in this setting: no ratio to dense." in table.sections[0].notes
    assert row["step measured, ms [95%]"].startswith("5.00")
    assert row["ideal MACs / dense"] == row["time / dense [95%]"] == "–"  # noqa: RUF001
    ((_, _, figure, why),) = pictures(books_of(study_of(load(store))), ())
    assert figure is None
    assert why == "no contender has a ratio to dense"


def test_an_invalid_run_and_records_that_know_little_are_in_no_ratio(tmp_path: Path) -> None:
    invalid = run_row("barter", 0.3, 0, executed_updates=0)
    old = run_row(
        *("static", 0.3, 0),
        peak_allocated_bytes=None,
        realisation=None,
        ideal_training_macs_total=None,
        active_parameters=None,
    )
    _, static, barter = cells(
        tables_in(study(tmp_path, [(dense(), 10.0), (invalid, 5.0), (old, 5.0)]))["ledger"]
    )
    assert barter["time / dense [95%]"] == barter["peak bytes / dense"] == "–"  # noqa: RUF001
    assert static["runs are"] == "not recorded"
    assert static["time / dense [95%]"].endswith("?")
    for head in ("ideal MACs / dense", "nominal bytes / dense", "peak bytes / dense"):
        assert static[head] == "–"  # noqa: RUF001


def test_peaks_of_different_sources_are_in_no_ratio(tmp_path: Path) -> None:
    other = run_row("static", 0.3, 0, memory_source="allocator")
    _, static = cells(tables_in(study(tmp_path, [(dense(), 10.0), (other, 5.0)]))["ledger"])
    assert static["peak bytes / dense"] == "–"  # noqa: RUF001


def test_contenders_timed_side_by_side_have_the_same_ledger(tmp_path: Path) -> None:
    runs = [timed_run("dense", 1.0), timed_run("static", 0.3)]
    store = write_timed(tmp_path, runs, noise=0.0, drift=0.2)
    _, static = cells(tables_in(store)["ledger"])
    assert static["time / dense [95%]"].startswith("0.500")
    assert static["time saved, % of promised [95%]"].startswith("71")
    assert (static["peak bytes / dense"], static["bytes saved, % of promised"]) == (
        "0.475 C",
        "75 C",
    )
    assert "ledger_bytes" in tables_in(store)
    figure_of(store)


# ------------------------------------------------------------------------------------ picture


def test_the_picture_fills_a_promise_as_far_as_it_is_true(tmp_path: Path) -> None:
    rows = [predicted("dense", 1.0, 64.0, 10.0), predicted("static", 0.3, 32.0, 4.0)]
    runs = [(dense(), 10.0), (run_row("static", 0.3, 0), 5.0), (masked(), 11.0)]
    figure = figure_of(study(tmp_path, runs, rows))
    compute, time, memory = figure.axes
    assert [label.get_text() for label in compute.get_yticklabels()] == ["static 0.3", "rigl 0.3"]
    # Per contender what is promised, then what is real.
    for axes, widths in (
        (compute, (70, 70, 60, 0)),
        (time, (70, 50, 60, -10)),
        (memory, (100 * 70_000 / 99_990, 52.5, 100 * 70_000 / 99_990, -100 / 64)),
    ):
        drawn = [bar.get_width() for bar in axes.patches]  # pyright: ignore[reportAttributeAccessIssue]
        assert drawn == pytest.approx(widths)
        assert len({bar.get_edgecolor()[:3] for bar in axes.patches}) == 2
    assert [text.get_text() for text in time.texts] == ["50 of 70", "-10 of 60"]
    assert [text.get_text() for text in memory.texts] == ["53 of 70", "-2 of 70"]
    diamonds = {
        axes: [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "D"]  # pyright: ignore
        for axes in figure.axes
    }
    assert diamonds == {compute: [], time: [pytest.approx(60)], memory: [pytest.approx(50)]}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [
        *("real, executed compact", "real, simulated by masks", "promised", "predicted")
    ]


def test_a_much_slower_contender_does_not_hide_the_others(tmp_path: Path) -> None:
    runs = [(dense(), 10.0), (run_row("static", 0.3, 0), 5.0), (masked(), 40.0)]
    _, time, _ = figure_of(study(tmp_path, runs)).axes
    assert time.get_xlim() == pytest.approx((-43, 100))
    assert [text.get_text() for text in time.texts] == ["50 of 70", "-300 of 60"]
    assert "<" in [line.get_marker() for line in time.lines]
