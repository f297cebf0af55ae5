"""Studies of a few runs whose ledger can be computed by hand, and that ledger."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.store import StudyStore
from reports.experiment_family import study_of
from reports.load import load
from reports.page_ledger import books_of, make_tables, pictures
from reports.predictions import read_predictions
from reports.table import Table
from reports.writers import csv_text, markdown
from tests.unit.reports_fixture import DENSE_BYTES, DENSE_MACS, Row, run_row, tables_of

MIB = 2**20
IMAGES = 200 * 64
"""Of a run: every step has 64 images."""


def dense(**changes: Any) -> Row:
    return run_row("dense", 1.0, 0, **changes)


def masked(**changes: Any) -> Row:
    """RigL as it is executed: of dense's size and MACs, with a mask of 1 MiB."""
    same = {
        "realisation": "masked",
        "training_macs_total": DENSE_MACS * IMAGES,
        "ideal_training_macs_total": 0.4 * DENSE_MACS * IMAGES,
        "peak_allocated_bytes": DENSE_BYTES + MIB,
        "peak_parameters_bytes": 9 * MIB,
    }
    return run_row("rigl", 0.3, 0, **same | changes)


def study(tmp_path: Path, runs: list[tuple[Row, float]], predicted: Any = None) -> StudyStore:
    """Runs and the time of all their steps, ms."""
    store = StudyStore(tmp_path, "demo")
    for run, step_ms in runs:
        store.write_run(run["run_id"], tables_of(run, step_ms, noise=0.0))
    if predicted is not None:
        store.predictions_file.write_text(json.dumps(predicted), encoding="utf-8")
    return store


def tables_in(store: StudyStore) -> dict[str, Table]:
    found = study_of(replace(load(store), predictions=read_predictions(store)))
    return {table.key: table for table in make_tables(found.records, books_of(found))}


def cells(table: Table) -> list[dict[str, str]]:
    lines = [line for line in markdown(table).splitlines() if line.startswith("| ")]
    head, _, *rows = (line.strip("| ").split(" | ") for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def rows_of(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


def figure_of(store: StudyStore) -> Figure:
    ((name, _, figure, _),) = pictures(books_of(study_of(load(store))), read_predictions(store))
    assert name == "ledger"
    assert figure is not None
    return figure


def predicted(method: str, density: float, peak_mib: float, step_ms: float | None) -> Row:
    return {
        "workload": "vit-digits",
        "method": method,
        "density": density,
        "batch_size": 64,
        "kind": "ordinary",
        "device": "cpu",
        "predicted_step_ms": step_ms,
        "predicted_peak_allocated_bytes": peak_mib * MIB,
    }
