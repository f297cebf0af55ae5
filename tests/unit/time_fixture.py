"""Synthetic records of a study timed side by side, with known answers.

Dense takes 10 ms a step, static and barter `10 * density + 2`, barter's collecting steps 1 ms more
and every update 8 ms, at 6 updates in 200 steps. Every round is slower as a whole by up to 20 %,
for all contenders alike; every launch of a contender differs by about `noise`, every block too.
"""

from pathlib import Path
from typing import Any

import numpy as np

from bench.schema import AGAIN, CONTENDER
from bench.store import StudyStore
from tests.unit.reports_fixture import (
    COLLECTING_OPERATORS,
    OPERATORS,
    UPDATE_OPERATORS,
    Row,
    Tables,
    hash_of,
    parts_of,
    run_row,
    true_ordinary_ms,
)

LAUNCHES, ROUNDS, STEPS_PER_BLOCK, WINDOWS_PER_BLOCK = 5, 3, 8, 2
TOTAL_STEPS, UPDATES, WINDOW = 200, 6, 4
COLLECTING_SHARE, COLLECTING_EXTRA_MS, UPDATE_MS = 0.3, 1.0, 8.0
MIB = 2**20
UNKNOWN = (
    *("executed_head_transfers", "executed_channel_transfers", "skipped_transfers"),
    "executed_updates",
    *("selected_step", "test_loss", "test_top1_percent", "test_macro_f1_percent", "test_images"),
)
"""What a run that is only timed does not find out."""


def true_step_ms(method: str, density: float) -> float:
    extra = COLLECTING_SHARE * COLLECTING_EXTRA_MS + UPDATES / TOTAL_STEPS * UPDATE_MS
    return true_ordinary_ms(method, density) + (extra if method == "barter" else 0)


def timed_run(method: str, density: float, seed: int = 0, **changes: Any) -> Row:
    row = run_row(method, density, seed, mode="time", launches=LAUNCHES, side_by_side=True)
    return row | dict.fromkeys(UNKNOWN) | {"stopped": "target reached"} | changes


def timed_tables(
    run: Row,
    launches: int = LAUNCHES,
    rounds: int = ROUNDS,
    noise: float = 0.003,
    drift: float = 0.2,
    roles: tuple[str, ...] | None = None,
    factor: float = 1.0,
) -> Tables:
    """All tables of one run; one that is not ok has only its `runs` row."""
    if run["status"] != "ok":
        return {"runs": [run]}
    segments = _segments(run)
    rng = np.random.default_rng(abs(hash_of(run["run_id"])))
    blocks = []
    for role in roles or ((CONTENDER, AGAIN) if run["method"] == "dense" else (CONTENDER,)):
        for launch in range(launches):
            shared = np.random.default_rng([run["seed"], launch])
            own = factor * np.exp(noise * rng.standard_normal())
            for round_ in range(rounds):
                slow = own * (1 + drift * shared.random())
                for part in segments:
                    ms = _step_ms(run, part) * slow * np.exp(noise * rng.standard_normal())
                    blocks.append(
                        {
                            "role": role,
                            "launch": launch,
                            "round": round_,
                            "position": 0,
                            "segment": part["segment"],
                            "step_ms": [float(x) for x in ms],
                        }
                    )
    return {"runs": [run], "segments": segments, "blocks": blocks}


def demo_runs() -> list[Row]:
    """Dense, static, barter; a failed and a skipped run beside them."""
    return [
        timed_run("dense", 1.0),
        timed_run("static", 0.3),
        timed_run("barter", 0.3),
        timed_run("static", 0.1, status="failed", reason="its process died (exit code -9)"),
        timed_run("barter", 0.1, status="skipped", reason="no topology at this density"),
    ]


def write_timed(root: Path, runs: list[Row], study: str = "demo", **of: Any) -> StudyStore:
    """Record the runs; keyword arguments go to `timed_tables`."""
    store = StudyStore(root, study)
    for run in runs:
        store.write_run(run["run_id"], timed_tables(run, **of))
    return store


def _segments(run: Row) -> list[Row]:
    """Ordinary steps; of barter also collecting ones, and windows that stand in their place."""
    if run["method"] != "barter":
        return [_segment(run, "ordinary", 1.0)]
    more = OPERATORS + COLLECTING_OPERATORS
    return [
        _segment(run, "collecting", COLLECTING_SHARE, more, less_bytes=MIB),
        _segment(run, "ordinary", 1 - COLLECTING_SHARE, less_bytes=2 * MIB),
        {
            **_segment(run, "update", UPDATES / TOTAL_STEPS, more + UPDATE_OPERATORS),
            "window_steps": WINDOW,
            "base": ["collecting"] * WINDOW,
            "host_synchronisations": 1,
        },
    ]


def _segment(
    run: Row, name: str, share: float, operators: int = OPERATORS, less_bytes: int = 0
) -> Row:
    peak = run["peak_allocated_bytes"] - less_bytes
    return {
        "segment": name,
        "share": share,
        "base": [],
        "final_widths": False,
        "dispatched_operators": operators,
        "host_synchronisations": 0,
        "peak_allocated_bytes": peak,
        **parts_of(peak),
    }


def _step_ms(run: Row, part: Row) -> np.ndarray:
    ordinary = true_ordinary_ms(run["method"], run["density"])
    if part["segment"] == "ordinary":
        return np.full(STEPS_PER_BLOCK, ordinary)
    if part["segment"] == "collecting":
        return np.full(STEPS_PER_BLOCK, ordinary + COLLECTING_EXTRA_MS)
    window = np.full(WINDOW, ordinary + COLLECTING_EXTRA_MS)
    window[0] += UPDATE_MS
    return np.tile(window, WINDOWS_PER_BLOCK)
