"""The experiments that compare accuracies from scratch: main, learning rates, random, static."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.store import StudyStore
from reports import experiment_main, experiment_random, experiment_static
from reports.plots_density import against_density
from tests.unit.experiment_fixture import all_notes, config, family, rows_by, run_of, shown, write
from tests.unit.reports_fixture import Row, true_top1

STUDIES = {"learning-rates": "rates", "main": "final"}
SYNTHETIC = {
    "synthetic_data": True,
    "test_top1_percent": None,
    "test_macro_f1_percent": None,
    "test_images": None,
}


def main_runs(**changes) -> list[Row]:
    """Static and RigL are 0.4, 0.5 and 0.6 points below BARTER; SET is on both sides of it."""
    runs = [run_of("dense", 1.0, seed, **changes) for seed in range(3)]
    for method in ("barter", "static", "rigl", "set"):
        for seed, shift in enumerate((1.0, -1.0, 0.5)):
            run = run_of(method, 0.3, seed, learning_rate=0.003, **changes)
            if method == "set" and not changes:
                run["test_top1_percent"] = true_top1("barter", 0.3, seed) + shift
            runs.append(run)
    return runs


def write_main(root: Path, runs: list[Row]) -> StudyStore:
    return write(root, "final", "main", STUDIES, runs)


def test_differences_to_barter_and_their_verdicts(tmp_path: Path) -> None:
    found = family(write_main(tmp_path, main_runs()))
    (table,) = experiment_main.tables(found)
    rows = rows_by(table, "method")
    assert shown(table, rows["static"], "difference_points") == "-0.50 [-0.75, -0.25]"
    # Three pairs: t with 2 degrees of freedom is 7.649 at 98.33 %.
    assert shown(table, rows["static"], "together_points") == "[-0.94, -0.06]"
    verdicts = {method: row.get("verdict") for method, row in rows.items()}
    assert verdicts == {
        "dense": None,
        "static": "lower",
        "barter": "reference",
        "rigl": "lower",
        "set": "undecided",
    }
    assert shown(table, rows["rigl"], "learning_rate") == "0.003"
    assert shown(table, rows["dense"], "learning_rate") == "0.001"  # of its configuration
    assert rows["rigl"]["seeds"] == 3
    assert "No published figure stands here" in all_notes(table)
    assert "one family of 3 pairs" in all_notes(table)
    assert "Example CPU" in table.sections[0].caption
    assert "stage learning-rates: study rates has not been started" in found.missing


def test_published_differences_stand_beside_the_papers_models(tmp_path: Path) -> None:
    runs = [run | {"workload": "cct-cifar100"} for run in main_runs()]
    (table,) = experiment_main.tables(family(write_main(tmp_path, runs)))
    rows = rows_by(table, "method")
    key = "published_difference_points"
    assert shown(table, rows["static"], key) == "-2.97 to -0.27"
    assert rows["rigl"][key] is None
    assert "CCT on CIFAR-100" in all_notes(table)


def test_one_seed_has_no_interval_and_no_verdict(tmp_path: Path) -> None:
    runs = [run for run in main_runs() if run["seed"] == 0]
    (table,) = experiment_main.tables(family(write_main(tmp_path, runs)))
    row = rows_by(table, "method")["static"]
    assert shown(table, row, "difference_points") == "-0.40"
    assert row["verdict"] == "one seed"
    assert "No pair has two common seeds" in all_notes(table)


def test_synthetic_runs_have_words_in_place_of_accuracy(tmp_path: Path) -> None:
    found = family(write_main(tmp_path, main_runs(**SYNTHETIC)))
    (table,) = experiment_main.tables(found)
    for row in rows_by(table, "method").values():
        assert shown(table, row, "top1_percent") == "synthetic data"
        assert row["verdict"] == "synthetic data"
    assert "nothing can be learned" in all_notes(table)
    assert [figure for _, _, figure, _ in experiment_main.pictures(found)] == [None, None]


def test_accuracy_is_drawn_against_density(tmp_path: Path) -> None:
    runs = [*main_runs(), run_of("barter", 0.1, 0)]
    found = family(write_main(tmp_path, runs))
    names = {name: figure for name, _, figure, _ in experiment_main.pictures(found)}
    assert set(names) == {"experiment_top1", "experiment_macro_f1"}
    figure = names["experiment_top1"]
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.3"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["dense", "static", "barter", "rigl", "set"]
    summaries = found.here.summaries
    setting = summaries[0].contender.setting
    assert against_density(setting, summaries, lambda s: None, "x") is None


# --------------------------------------------------------------------- learning rates


def search_runs() -> tuple[list[Row], dict[str, list[float]]]:
    """BARTER is best at 0.003 (mean 81), RigL at 0.001; its run at 0.01 failed."""
    best = {
        ("barter", 0.001): (70, 72),
        ("barter", 0.003): (80, 82),
        ("rigl", 0.001): (60, 60),
        ("rigl", 0.003): (55, 65),
    }
    runs, validation = [], {}
    for (method, rate), tops in best.items():
        for seed, top1 in enumerate(tops):
            run = run_of(
                method,
                0.3,
                seed,
                f"-{rate}",
                learning_rate=rate,
                config_json=config({"learning_rate": rate}),
            )
            runs.append(run)
            validation[run["run_id"]] = [10.0, float(top1), top1 - 1.0]
    return runs, validation


def test_the_search_names_the_best_rate_and_its_budget(tmp_path: Path) -> None:
    runs, validation = search_runs()
    write(tmp_path, "rates", "main", STUDIES, runs, validation)
    store = write_main(tmp_path, main_runs())
    _, table = experiment_main.tables(family(store))
    rows = rows_by(table, "method", "learning_rate")
    assert shown(table, rows["barter", 0.003], "validation_top1_percent").startswith("81.00 [")
    assert {key: row["best"] for key, row in rows.items()} == {
        ("barter", 0.001): None,
        ("barter", 0.003): "best",
        ("rigl", 0.001): "best",  # as good as 0.003: the lower one
        ("rigl", 0.003): None,
    }
    assert rows["barter", 0.003]["used"] == "used"
    assert rows["barter", 0.001]["used"] is None
    assert (rows["rigl", 0.001]["tried_runs"], rows["rigl", 0.001]["steps"]) == (2, 400)
    assert "the same for every method of the table: 4 runs of 800 steps in all" in all_notes(table)


def test_unequal_budgets_and_failed_rates_are_said(tmp_path: Path) -> None:
    runs, validation = search_runs()
    failed = run_of(
        "rigl", 0.3, 0, "-0.01", learning_rate=0.01, status="failed", reason="loss is not finite"
    )
    store = write(tmp_path, "rates", "main", STUDIES, [*runs, failed], validation)
    (table,) = experiment_main.tables(family(store))
    row = rows_by(table, "method", "learning_rate")["rigl", 0.01]
    assert shown(table, row, "validation_top1_percent") == "failed"
    notes = all_notes(table)
    assert "NOT equal" in notes
    assert "rigl 0.3: 5 runs of 1,000 steps in all" in notes
    assert "Left out: 1 failed" in notes


# ----------------------------------------------------------------- random and static


def test_random_variants_stand_against_barter(tmp_path: Path) -> None:
    methods = ("barter", "barter-random-receiver", "barter-random-donor")
    runs = [run_of(method, 0.5, seed) for method in methods for seed in range(2)]
    for run in runs:
        if run["method"] == "barter-random-donor":
            run["test_top1_percent"] -= 10 + run["seed"] / 100
    store = write(tmp_path, "random", "random-selection", {"random-selection": "random"}, runs)
    (table,) = experiment_random.tables(family(store))
    rows = rows_by(table, "method")
    assert rows["barter"]["verdict"] == "reference"
    assert rows["barter-random-receiver"]["verdict"] == "undecided"  # no spread at all
    assert rows["barter-random-donor"]["verdict"] == "lower"
    assert "its values are not in the specification" in all_notes(table)


def test_static_beside_barter(tmp_path: Path) -> None:
    runs = [
        run_of(method, density, seed, workload="vit-tiny-imagenet")
        for method in ("static", "barter")
        for density in (0.1, 0.3)
        for seed in range(3)
    ]
    store = write(tmp_path, "static", "static", {"static": "static"}, runs, noise=0)
    accuracy, costs = experiment_static.tables(family(store))
    rows = rows_by(accuracy, "density")
    assert shown(accuracy, rows[0.3], "difference_points") == "+0.50 [+0.25, +0.75]"
    assert rows[0.3]["verdict"] == "higher"
    assert shown(accuracy, rows[0.3], "published_difference_points") == "+0.34 to +0.63"
    assert shown(accuracy, rows[0.3], "macro_f1_difference_points") == "+0.50 [+0.25, +0.75]"
    assert rows[0.1]["seeds"] == 3
    costs_rows = rows_by(costs, "method", "density")
    assert costs_rows["barter", 0.3]["stored_parameters"] == 29_990
    # 5 ms steps, of which 6 of 180 take 5 ms more.
    ratio = costs_rows["barter", 0.3]["time_over_static"]
    assert ratio.value == pytest.approx((5 + 5 * 6 / 180) / 5)
    assert shown(costs, costs_rows["static", 0.3], "time_over_static") == "1 (reference)"
