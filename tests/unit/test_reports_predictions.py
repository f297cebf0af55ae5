"""Predicted costs beside measured ones in a report."""

import json
from pathlib import Path

from tests.unit.ledger_fixture import cells, dense, masked, predicted, study, tables_in
from tests.unit.reports_fixture import run_row
from tests.unit.time_fixture import timed_run, write_timed


def test_predicted_stands_beside_measured_with_its_error(tmp_path: Path) -> None:
    rows = [predicted("dense", 1.0, 64.0, None), predicted("static", 0.3, 31.92, 4.0)]
    runs = [(dense(), 10.0), (run_row("static", 0.3, 0), 5.0)]
    reference, static = cells(tables_in(study(tmp_path, runs, rows))["ledger_predictions"])
    assert (reference["peak predicted, MiB"], reference["peak error, %"]) == ("64.00 P", "+0.00")
    assert reference["step predicted, ms"] == reference["step error, %"] == "–"  # noqa: RUF001
    # 31.92 for 30.4 MiB is 5 % too much, 4 for 5 ms 20 % too little.
    assert static["kind of step"] == "ordinary"
    assert static["peak predicted, MiB"] == "31.92 P"
    assert static["peak measured, MiB"] == "30.40 C"
    assert static["peak error, %"] == "+5.00"
    assert static["step predicted, ms"] == "4.00 P"
    assert static["step measured, ms [95%]"].startswith("5.000 [")
    assert static["step error, %"] == "-20.00"


def test_without_predictions_there_is_no_such_table(tmp_path: Path) -> None:
    store = study(tmp_path, [(dense(), 10.0), (masked(), 11.0)])
    assert tables_in(store).keys() == {"ledger", "ledger_bytes"}


def test_every_kind_of_step_has_its_own_error_and_the_run_one(tmp_path: Path) -> None:
    run = run_row("barter", 0.3, 0)
    rows = [
        predicted("barter", 0.3, 30.4, step_ms) | {"kind": kind}
        for kind, step_ms in (("ordinary", 5.0), ("collecting", 5.0), ("collecting+update", 5.0))
    ]
    table = tables_in(study(tmp_path, [(run, 5.0)], rows))["ledger_predictions"]
    kinds = {row["kind of step"]: row["step error, %"] for row in cells(table)}
    # Updates take 5 ms more, 6 of 180 timed steps: 5 of 5 + 30 / 180 on the average.
    assert kinds == {
        "all kinds": "-3.23",
        "ordinary": "+0.00",
        "collecting": "+0.00",
        "collecting+update": "-50.00",
    }


def test_a_timed_study_has_predictions_by_kind(tmp_path: Path) -> None:
    runs = [timed_run("dense", 1.0), timed_run("barter", 0.3)]
    store = write_timed(tmp_path, runs, noise=0.0, drift=0.0)
    rows = [
        predicted("barter", 0.3, 30.4, 3.0) | {"kind": "collecting"},
        predicted("barter", 0.3, 30.4, 3.0) | {"kind": "collecting+update"},
    ]
    store.predictions_file.write_text(json.dumps(rows), encoding="utf-8")
    whole, collecting, update = cells(tables_in(store)["ledger_predictions"])
    assert whole["step predicted, ms"] == "–"  # noqa: RUF001 - ordinary steps were not predicted
    # Collecting steps take 5 + 1 ms and 1 MiB less than the update, which has the peak.
    assert collecting["step error, %"] == "-50.00"
    assert collecting["peak measured, MiB"] == "29.40 C"
    assert update["peak error, %"] == "+0.00"
    assert update["step measured, ms [95%]"] == "–"  # noqa: RUF001 - only windows were timed
