"""What a study's runs were predicted to cost: a file beside the records, of whoever predicts.

`predictions.json` is a list of rows, or `{"schema_version": 1, "rows": [...]}`. A row is one kind
of step of one contender; keys that are not named here are ignored:

    workload, method (with its options, as on the command line), density, batch_size
    kind       `ordinary`, or the step's flags: `collecting`, `collecting+update`, ...
    device     `cpu`, `cuda`, or a model of GPU
    gpu        optional; a model of GPU, then it counts and not `device`
    predicted_peak_allocated_bytes, predicted_step_ms    null or left out: not predicted
    tf32, autocast, compile, attention, optimizer        optional; left out: however it was executed
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from bench.errors import UsageError
from bench.files import read_json
from bench.schema import COLLECTING, DENSE_GRADIENT, EXECUTION_DEFAULTS, UPDATE
from bench.store import StudyStore

VERSION = 1
"""Of the file; a newer one is refused."""
ORDINARY = "ordinary"
FLAGS = (COLLECTING, DENSE_GRADIENT, UPDATE)
EXECUTION = ("tf32", *EXECUTION_DEFAULTS)
_TEXTS = ("workload", "method", "kind", "device")


@dataclass(frozen=True)
class Prediction:
    """One kind of step of one contender on one device."""

    workload: str
    method: str
    density: float
    batch_size: int
    kind: str
    device: str
    peak_allocated_bytes: float | None
    step_ms: float | None
    execution: tuple[tuple[str, Any], ...] = ()
    """Of the columns EXECUTION those that the row has."""

    @property
    def flags(self) -> tuple[str, ...]:
        return () if self.kind == ORDINARY else tuple(self.kind.split("+"))

    @property
    def name(self) -> str:
        """`rigl:interval=5` as reports name it: `rigl [interval=5]`."""
        method, *options = self.method.split(":")
        return f"{method} [{', '.join(options)}]" if options else method


def read_predictions(store: StudyStore) -> tuple[Prediction, ...]:
    """The predictions of a study; none if nobody put the file there.

    Raises:
        UsageError: the file is unreadable, damaged, or of a newer version; one line says where.
    """
    path = store.predictions_file
    if not path.exists():
        return ()
    rows = read_json(path)
    if isinstance(rows, dict):
        version = rows.get("schema_version")
        if isinstance(version, int) and version > VERSION:
            raise UsageError(
                f"{path} has schema version {version}, newer than this program's {VERSION}: "
                "read it with a newer bench"
            )
        rows = rows.get("rows")
    if not isinstance(rows, list):
        raise UsageError(f"{path} is no list of predictions: see docs/ledger.md")
    found: dict[tuple[Any, ...], int] = {}
    predictions = []
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping) and row.get("reason"):
            continue  # why nothing could be predicted
        try:
            prediction = _prediction(row)
        except ValueError as error:
            raise UsageError(f"{path}, row {number}: {error}") from error
        first = found.setdefault(_identity(prediction), number)
        if first != number:
            raise UsageError(f"{path}, row {number}: predicts the same as row {first}")
        predictions.append(prediction)
    return tuple(p for p in predictions if (p.peak_allocated_bytes, p.step_ms) != (None, None))


def is_device(predicted: str, device: str | None, device_name: str | None) -> bool:
    """Whether a prediction for `predicted` holds for a record's device.

    A model of GPU is known by its words: those of one name must all be in the other, as builds are
    left out here or there. `L40` is `NVIDIA L40`, and not `NVIDIA L40S`.
    """
    if predicted.lower() == device:
        return True
    mine, theirs = (
        {*re.findall(r"[a-z0-9.]+", name.lower())} - {"nvidia"}
        for name in (predicted, device_name or "")
    )
    return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


def _identity(prediction: Prediction) -> tuple[Any, ...]:
    p = prediction
    return p.workload, p.name, p.density, p.batch_size, p.kind, p.device.lower(), p.execution


def _prediction(row: Any) -> Prediction:
    """Raises ValueError, in words."""
    if not isinstance(row, Mapping):
        raise ValueError("it is no object with keys")
    needed = (*_TEXTS, "density", "batch_size")
    missing = [key for key in needed if key not in row]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    for key in (*_TEXTS, *(("gpu",) if row.get("gpu") is not None else ())):
        if not isinstance(row[key], str) or not row[key]:
            raise ValueError(f"{key} takes a text, not {row[key]!r}")
    wrong = [flag for flag in row["kind"].split("+") if flag not in FLAGS]
    if wrong and row["kind"] != ORDINARY:
        raise ValueError(
            f"kind {row['kind']!r} is neither {ORDINARY} nor any of {', '.join(FLAGS)} joined by +"
        )
    peak_bytes, step_ms = (
        None if row.get(key) is None else _number(row, key)
        for key in ("predicted_peak_allocated_bytes", "predicted_step_ms")
    )
    return Prediction(
        workload=row["workload"],
        method=row["method"],
        density=_number(row, "density"),
        batch_size=int(_number(row, "batch_size")),
        kind=row["kind"],
        device=row.get("gpu") or row["device"],
        peak_allocated_bytes=peak_bytes,
        step_ms=step_ms,
        execution=tuple((key, row[key]) for key in EXECUTION if key in row),
    )


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} takes a number, not {value!r}")
    if not isfinite(value) or value <= 0:
        raise ValueError(f"{key} is {value}: it must be above 0")
    return value
