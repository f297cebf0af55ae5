"""Runs that were timed in blocks, side by side: their segments and blocks. Columnar: no pandas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from bench.reason_codes import FEWEST_LAUNCHES, TOO_FEW_LAUNCHES
from bench.schema import AGAIN, CONTENDER
from bench.store import StudyStore
from bench.timing.segments import Segment, mean_step_ms, update_cost_ms
from reports.load import NO_UPDATE, Records, Run, Standing
from reports.paired import Cells
from reports.segment_counts import Row, counted_steps
from reports.statistics import Floats

Key = tuple[tuple[int, int], int]
"""(seed, launch), round: contenders of one seed share their launches."""


@dataclass(frozen=True)
class Block:
    """What one participant took for one segment in one round."""

    mean_ms: float
    """Of steps; of update windows, the whole window."""
    median_ms: float
    count: int
    """Steps or windows."""


Role = Mapping[str, Mapping[Key, Block]]
"""Segment -> round -> block, of a run in one role."""


@dataclass(frozen=True)
class Timing:
    """The times of one run. Rounds in which a segment has no time are left out of what needs it."""

    segments: tuple[Segment, ...]
    contender: Role
    again: Role
    """The reference's second entry (A/A); empty for others."""
    costs: tuple[Row, ...] = ()
    """Of each segment its row of the table: what a step costs apart from time."""

    def segment_ms(self, name: str, statistic: str = "mean_ms") -> Cells:
        return {k: getattr(b, statistic) for k, b in self.contender.get(name, {}).items()}

    def step_ms(self, statistic: str = "mean_ms", again: bool = False) -> Cells:
        """The schedule-weighted mean step of every round, from each segment's mean or median."""
        role = self.again if again else self.contender
        names = [name for part in self.segments for name in (part.name, *part.base)]
        rounds = _rounds(role, list(dict.fromkeys(names)), statistic)
        return {key: mean_step_ms(self.segments, times) for key, times in rounds}

    def update_ms(self, window: Segment) -> Cells:
        """What one update added in every round."""
        names = list(dict.fromkeys([window.name, *window.base]))
        rounds = _rounds(self.contender, names, "mean_ms")
        return {key: update_cost_ms(window, times) for key, times in rounds}


def load_times(records: Records) -> tuple[Records, dict[str, Timing]]:
    """The timings of runs that are shown, by run id, and the records with what only they tell:
    which runs held no update, and why runs deserve caution."""
    ids = [run["run_id"] for run in records.shown]
    costs = _costs(records.store, ids)
    segments = {i: tuple(Segment.from_row(row) for row in rows) for i, rows in costs.items()}
    seeds = {run["run_id"]: run["seed"] for run in records.shown}
    roles, untimed = _blocks(records.store, seeds, segments)
    timings = {
        run_id: Timing(
            parts,
            roles.get((run_id, CONTENDER), {}),
            roles.get((run_id, AGAIN), {}),
            tuple(costs[run_id]),
        )
        for run_id, parts in segments.items()
    }
    runs = [
        _checked(run, timings.get(run["run_id"]), untimed.get(run["run_id"], 0))
        if run["run_id"] in seeds
        else run
        for run in records.runs
    ]
    return replace(records, runs=runs), timings


def _checked(run: Run, timing: Timing | None, untimed: int) -> Run:
    codes: list[str] = list(run["reason_codes"] or [])
    launches = {launch for launch, _ in timing.step_ms()} if timing else set()
    if len(launches) < FEWEST_LAUNCHES and TOO_FEW_LAUNCHES not in codes:
        codes.append(TOO_FEW_LAUNCHES)
    if untimed:
        codes.append(f"{untimed} blocks without a time")
    steps = counted_steps(timing.costs if timing else (), run["total_steps"] or 0)
    run = replace(run, row={**run.row, "reason_codes": codes}, steps=steps)
    known = timing.segments if timing else ()
    if run["is_dynamic"] and known and not any(part.is_window for part in known):
        return replace(run, standing=Standing.INVALID, reason=NO_UPDATE)
    return run


def _costs(store: StudyStore, run_ids: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {run_id: [] for run_id in run_ids}
    for row in store.arrow("segments", run_ids=run_ids).to_pylist():
        found[row["run_id"]].append(row)
    return found


def _blocks(
    store: StudyStore, seeds: Mapping[str, int], segments: Mapping[str, Sequence[Segment]]
) -> tuple[dict[tuple[str, str], dict[str, dict[Key, Block]]], dict[str, int]]:
    """(run, role) -> its blocks, and how many blocks of each run hold no usable time."""
    columns = ("role", "launch", "round", "segment", "step_ms")
    table = store.arrow("blocks", columns, seeds)
    length = {(i, part.name): part.length for i, parts in segments.items() for part in parts}
    roles: dict[tuple[str, str], dict[str, dict[Key, Block]]] = {}
    untimed: dict[str, int] = {}
    rows = table.drop_columns(["step_ms"]).to_pylist()
    for row, times in zip(rows, _lists(table), strict=True):
        run_id, name = row["run_id"], row["segment"]
        block = _block(times, length.get((run_id, name), 1))
        if block is None:
            untimed[run_id] = untimed.get(run_id, 0) + 1
            continue
        key = ((seeds[run_id], row["launch"]), row["round"])
        roles.setdefault((run_id, row["role"]), {}).setdefault(name, {})[key] = block
    return roles, untimed


def _lists(table: pa.Table) -> list[Floats]:
    """The column `step_ms`, one array per row: a view of one flat array."""
    if not len(table):
        return []
    lists = table["step_ms"].combine_chunks()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = lists.flatten().to_numpy(zero_copy_only=False).astype(float)
    return np.split(flat, np.cumsum(lengths)[:-1])


def _block(times: Floats, length: int) -> Block | None:
    """None unless it holds whole windows of positive times."""
    if not len(times) or len(times) % length or not (np.isfinite(times) & (times > 0)).all():
        return None
    wholes = times.reshape(-1, length).sum(axis=1)
    return Block(float(wholes.mean()), float(np.median(wholes)), len(wholes))


def _rounds(role: Role, names: Sequence[str], statistic: str) -> list[tuple[Key, dict[str, float]]]:
    """Rounds in which all these segments were timed, in order."""
    parts = [role.get(name, {}) for name in names]
    common = set.intersection(*map(set, parts)) if parts else set()
    return [
        (key, {n: getattr(p[key], statistic) for n, p in zip(names, parts, strict=True)})
        for key in sorted(common)
    ]
