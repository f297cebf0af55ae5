"""Records -> runs with their timed steps, each run's standing decided once. Columnar: no pandas."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from bench.errors import UsageError
from bench.modes import TIME, TRAIN
from bench.schema import (
    COLLECTING,
    DENSE_GRADIENT,
    EXECUTION_DEFAULTS,
    OK,
    SKIPPED,
    UPDATE,
    WARM_UP,
)
from bench.store import StudyStore
from reports.predictions import Prediction
from reports.statistics import Floats, Launch
from reports.step_counts import Counts, count_by_kind

pc: Any = pyarrow.compute  # its functions are made at import time: no checker knows them

ORDINARY_KIND, COLLECTING_KIND, DENSE_GRADIENT_KIND, UPDATE_KIND = range(4)
"""Kinds of timed step, the costlier flag winning: an update step is an update step."""
KIND_OF_FLAG = {
    COLLECTING: COLLECTING_KIND,
    DENSE_GRADIENT: DENSE_GRADIENT_KIND,
    UPDATE: UPDATE_KIND,
}
"""The last flag that a step has decides."""

STEP_NUMBERS = (
    *("step_ms", "topology_ms", "dispatched_operators", "host_synchronisations"),
    "peak_allocated_bytes",
)
BY_RUN_AND_STEP = [("run_id", "ascending"), ("step", "ascending")]
NO_UPDATE = "invalid: no update executed"
FINETUNE, CONTINUE = "finetune", "continue"
"""Values of the column `start`."""


class Standing(StrEnum):
    """What a run may be used for."""

    USED = "used"
    INVALID = "invalid"  # shown and marked, in no speed-up
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Steps:
    """Timed steps of a run without its warm-up, in order; all arrays of shape (n,).

    The counts are of all steps: what is counted needs no warm-up.
    """

    launch: Launch
    topology_ms: Floats | None  # None: the run recorded none
    untimed: int  # steps without a time, warm-up apart
    warm_up: int
    operators: Counts = field(default_factory=dict)
    synchronisations: Counts = field(default_factory=dict)
    peaks: Counts = field(default_factory=dict)  # bytes allocated

    @property
    def topology(self) -> Launch | None:
        if self.topology_ms is None:
            return None
        return Launch(self.topology_ms, self.launch.kinds)


NO_STEPS = Steps(Launch(np.empty(0), np.empty(0, np.int8)), None, 0, 0)


@dataclass(frozen=True)
class Run:
    """One row of `runs` (attribute `row`: schema columns, None for null) and what belongs to it."""

    row: dict[str, Any]
    standing: Standing
    reason: str  # why it is not used; empty if it is
    config: dict[str, str]  # dotted key -> value
    environment: dict[str, str]  # likewise
    steps: Steps = field(default=NO_STEPS, repr=False)

    def __getitem__(self, column: str) -> Any:
        return self.row[column]


@dataclass(frozen=True)
class Records:
    """A study's records. `evals` and `updates` are lists of rows of the runs that are shown."""

    study: str
    runs: list[Run]
    evals: list[dict[str, Any]]
    updates: list[dict[str, Any]]
    store: StudyStore
    mode: str = TRAIN
    forced: bool = False  # ratios across settings were asked for
    predictions: Sequence[Prediction] = ()  # of the study's file of them, if that was read

    @property
    def shown(self) -> list[Run]:
        """Runs with figures: used ones and invalid ones (which are marked)."""
        return [run for run in self.runs if run.standing in (Standing.USED, Standing.INVALID)]

    def widths(self, run_id: str) -> list[dict[str, Any]]:
        """Rows of step, heads_per_layer, channels_per_layer of one run, by step."""
        columns = ("step", "heads_per_layer", "channels_per_layer")
        return self.store.arrow("steps", columns, [run_id]).sort_by("step").to_pylist()


def load(store: StudyStore) -> Records:
    """Read and check a study. Raises UsageError for bad files, a study without any run, or one
    whose runs are of both modes."""
    incomplete = set(store.incomplete())
    rows = [_as_now(row) for row in store.arrow("runs").to_pylist()]
    rows = [row for row in rows if row["run_id"] not in incomplete]
    if not rows:
        raise UsageError(
            f"study {store.study!r} has no finished run yet: start it with `bench run`"
        )
    standings = [_standing(row) for row in rows]
    shown = [
        row["run_id"]
        for row, (standing, _) in zip(rows, standings, strict=True)
        if standing in (Standing.USED, Standing.INVALID)
    ]
    steps = _steps(store, shown)
    runs = [
        Run(
            row,
            standing,
            reason,
            _flat(row["config_json"]),
            _flat(row["environment_json"]),
            steps.get(row["run_id"], NO_STEPS),
        )
        for row, (standing, reason) in zip(rows, standings, strict=True)
    ]
    return Records(
        study=store.study,
        runs=runs,
        evals=store.arrow("evals", run_ids=shown).sort_by(BY_RUN_AND_STEP).to_pylist(),
        updates=store.arrow("updates", run_ids=shown).sort_by(BY_RUN_AND_STEP).to_pylist(),
        store=store,
        mode=_mode(store.study, rows),
    )


def _as_now(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `runs` in which columns that older records lack say what they meant."""
    return row | {c: default for c, default in EXECUTION_DEFAULTS.items() if row[c] is None}


def _mode(study: str, rows: Sequence[dict[str, Any]]) -> str:
    """A run that was not done may lack its mode: the others decide."""
    done = [row for row in rows if row["status"] == OK] or rows
    modes = {row["mode"] or TRAIN for row in done}
    if len(modes) > 1:
        raise UsageError(
            f"study {study!r} holds runs of modes {' and '.join(sorted(modes))}: "
            "they have nothing to be compared by; give each mode a study of its own"
        )
    return modes.pop()


def _standing(row: dict[str, Any]) -> tuple[Standing, str]:
    if row["status"] != OK:
        standing = Standing.SKIPPED if row["status"] == SKIPPED else Standing.FAILED
        return standing, " ".join((row["reason"] or "no reason recorded").split())
    # Updates of a run timed in blocks are in its blocks; a continued run keeps its topology.
    counted = row["mode"] != TIME and row["start"] != CONTINUE
    if counted and row["is_dynamic"] and not row["executed_updates"]:
        return Standing.INVALID, NO_UPDATE
    return Standing.USED, ""


def _flat(text: str | None) -> dict[str, str]:
    """{"a": {"b": 1}} -> {"a.b": "1"}; text that is not JSON gives nothing."""
    flat: dict[str, str] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                visit(f"{prefix}.{key}" if prefix else str(key), inner)
        else:
            flat[prefix] = value if isinstance(value, str) else json.dumps(value)

    try:
        visit("", json.loads(text or "{}"))
    except ValueError:
        return {}
    flat.pop("", None)
    return flat


def _steps(store: StudyStore, run_ids: Sequence[str]) -> dict[str, Steps]:
    table = store.arrow("steps", ("step", "flags", *STEP_NUMBERS), run_ids)
    parts = by_run(table.sort_by(BY_RUN_AND_STEP))
    return {run_id: _steps_of_one(part) for run_id, part in parts.items()}


def by_run(table: pa.Table) -> dict[str, pa.Table]:
    """The rows of each run, from a table that is sorted by run."""
    if not len(table):
        return {}
    numbers, names = _encoded(table["run_id"].combine_chunks())
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1)]
    return {
        names[numbers[start]]: table.slice(start, stop - start)
        for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True)
    }


def _steps_of_one(table: pa.Table) -> Steps:
    flags = table["flags"].combine_chunks()
    flagged = _flagged(flags)
    warm = flagged(WARM_UP)
    kinds = np.full(len(warm), ORDINARY_KIND, np.int8)
    for flag, kind in KIND_OF_FLAG.items():
        kinds[flagged(flag)] = kind
    times, topology, operators, synchronisations, peaks = (
        table[column].combine_chunks().to_numpy(zero_copy_only=False).astype(float)
        for column in STEP_NUMBERS
    )
    timed = ~warm & np.isfinite(times)
    return Steps(
        launch=Launch(times[timed], kinds[timed]),
        # Null on single steps means that no topology work was done there: it cost nothing.
        topology_ms=None if np.isnan(topology).all() else np.nan_to_num(topology[timed]),
        untimed=int((~warm & ~np.isfinite(times)).sum()),
        warm_up=int(warm.sum()),
        operators=count_by_kind(kinds, operators),
        synchronisations=count_by_kind(kinds, synchronisations),
        peaks=count_by_kind(kinds, peaks),
    )


def _flagged(flags: Any) -> Callable[[str], NDArray[np.bool_]]:
    """From a list<string> array to a function: which of its rows hold a name, shape (n,)."""
    numbers, names = _encoded(pc.list_flatten(flags))
    parents = pc.list_parent_indices(flags).to_numpy()

    def holding(name: str) -> NDArray[np.bool_]:
        mask = np.zeros(len(flags), bool)
        if name in names:
            mask[parents[numbers == names.index(name)]] = True
        return mask

    return holding


def _encoded(texts: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Texts as numbers that stand for distinct names: millions of steps compare fast."""
    encoded = texts.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
