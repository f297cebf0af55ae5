"""Made-up studies of named experiments, with the file that says which one they belong to."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.store import StudyStore
from reports.experiment_family import Family, family_of, study_of
from reports.load import load
from reports.table import Table
from tests.unit.reports_fixture import DENSE_MACS, Row, run_row, tables_of

EPOCHS = 10
"""Of 20 steps: a run of 200 steps."""


def config(recipe: Mapping[str, Any] | None = None, **method: Any) -> str:
    """A run's configuration; keyword arguments are its method's hyperparameters."""
    settings = {"epochs": EPOCHS, "learning_rate": 0.001} | dict(recipe or {})
    return json.dumps({"recipe": settings, "config": method, "changed_options": []})


def run_of(method: str, density: float, seed: int, tag: str = "", **changes: Any) -> Row:
    row = run_row(method, density, seed, **{"config_json": config()} | changes)
    return row | {"run_id": row["run_id"] + tag}


def write(
    root: Path,
    study: str,
    experiment: str,
    studies: Mapping[str, str],
    runs: Sequence[Row],
    validation: Mapping[str, Sequence[float]] | None = None,
    scale: str = "small",
    noise: float = 0.02,
) -> StudyStore:
    """A study of an experiment.

    Args:
        studies: stage -> study, of the whole experiment.
        validation: run id -> validation top-1 at equal intervals, in place of a rising curve.
    """
    store = StudyStore(root, study)
    for run in runs:
        tables = tables_of(run, noise=noise)
        if validation and run["run_id"] in validation:
            tables["evals"] = evaluations(run, validation[run["run_id"]])
        store.write_run(run["run_id"], tables)
    stage = next((stage for stage, name in studies.items() if name == study), None)
    content = {"experiment": experiment, "scale": scale, "stage": stage, "studies": studies}
    store.experiment_file.write_text(json.dumps(content))
    return store


def evaluations(run: Row, tops: Sequence[float]) -> list[Row]:
    each = run["total_steps"] // len(tops)
    before = run.get("training_macs_before") or 0.0
    return [
        {
            "step": each * number,
            "split": "validation",
            "loss": 1.0,
            "top1_percent": top1,
            "macro_f1_percent": top1,
            "images": 100,
            "cumulative_training_macs": before + DENSE_MACS * run["density"] * 64 * each * number,
        }
        for number, top1 in enumerate(tops, 1)
    ]


def family(store: StudyStore) -> Family:
    found = family_of(study_of(load(store)))
    assert found is not None
    return found


def rows_by(table: Table, *keys: str) -> dict[Any, Mapping[str, Any]]:
    """The rows of all sections by the value, or the values, of these columns."""
    found = {}
    for section in table.sections:
        for row in section.rows:
            values = tuple(row[key] for key in keys)
            found[values if len(keys) > 1 else values[0]] = row
    return found


def shown(table: Table, row: Mapping[str, Any], key: str) -> str:
    """A cell as a reader sees it."""
    columns = {column.key: column for section in table.sections for column in section.columns}
    return columns[key].cell(row)


def all_notes(table: Table) -> str:
    return " ".join([*table.notes, *(note for s in table.sections for note in s.notes)])
