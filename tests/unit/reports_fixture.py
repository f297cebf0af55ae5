"""Synthetic records with known answers: what a finished study of the digits workload looks like.

Dense takes 10 ms a step, static and barter `10 * density + 2`, barter's update steps 5 ms more.
Every launch is slower or faster as a whole by about 1 %, every step by about 2 %.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.schema import COLLECTING, MEMORY_PARTS, UPDATE, WARM_UP
from bench.store import StudyStore

STEPS, WARM_UPS = 200, 20
WINDOW = (20, 80)
UPDATE_STEPS = (30, 40, 50, 60, 70, 80)
HEAD_STEP = 50
UPDATE_EXTRA_MS = 5.0
OPERATORS, COLLECTING_OPERATORS, UPDATE_OPERATORS = 400, 100, 1500
LAYERS, HEADS, CHANNELS = 4, 8, 64
DENSE_BYTES, DENSE_MACS = 64 * 2**20, 30_000_000
BUDGET = 100_000
Row = dict[str, Any]
Tables = dict[str, list[Row]]


def true_ordinary_ms(method: str, density: float) -> float:
    return 10.0 if method == "dense" else 10 * density + 2


def true_top1(method: str, density: float, seed: int) -> float:
    """Barter is ahead of static by 0.4, 0.5 and 0.6 points on seeds 0, 1 and 2."""
    lead = 0.4 + 0.1 * seed if method.startswith("barter") else 0.0
    return 90.0 + 5 * density + 0.5 * seed + lead


def run_row(method: str, density: float, seed: int, **changes: Any) -> Row:
    """A complete, successful `runs` row; `changes` replace single columns."""
    dynamic = method.startswith("barter")
    budget = round(BUDGET * density)
    row: Row = {
        "run_id": f"{method}-{density}-{seed}".replace(".", "_"),
        "study": "demo",
        "workload": "vit-digits",
        "method": method,
        "density": density,
        "seed": seed,
        "total_steps": STEPS,
        "full_schedule_steps": STEPS,
        "schedule_shortened": False,
        "batch_size": 64,
        "synthetic_data": False,
        "config_json": json.dumps(
            {
                "workload": "vit-digits",
                "seed": seed,
                "recipe": {"lr": 0.001, "rule": "uniform"},
                "config": {"transfer_multiplier": 3.0} if dynamic else {},
            }
        ),
        "environment_json": "{}",
        "device": "cpu",
        "device_name": "Example CPU",
        "torch_version": "2.11.0",
        "threads": 2,
        "tf32": False,
        "git_commit": "0123abc",
        "started_at": f"2026-11-30T10:0{seed}:00+00:00",
        "wall_s": 12.0,
        "status": "ok",
        "reason_codes": [],
        "is_dynamic": dynamic,
        "realisation": "compact",
        "update_order": "after",
        "budget_parameters": budget,
        "active_parameters": budget - 10,
        "active_parameters_min": budget - 10,
        "active_parameters_max": budget - 10,
        "stored_parameters": budget - 10,
        "macs_forward_per_image": round(DENSE_MACS * density / 3),
        "macs_backward_per_image": round(DENSE_MACS * density * 2 / 3),
        "macs_recomputed_per_image": 0,
        "training_macs_total": DENSE_MACS * density * STEPS * 64,
        "ideal_training_macs_total": DENSE_MACS * density * STEPS * 64,
        "allowed_parameters": budget - 10,
        "budget_invariant": "exact",
        "peak_allocated_bytes": round(DENSE_BYTES * (0.25 + 0.75 * density)),
        "memory_source": "accounted",
        "selected_step": 160,
        "test_loss": 0.2,
        "test_top1_percent": true_top1(method, density, seed),
        "test_macro_f1_percent": true_top1(method, density, seed) - 1,
        "test_images": 360,
    }
    if dynamic:
        row |= {
            "scheduled_head_transfers": 1,
            "scheduled_channel_transfers": 5,
            "executed_head_transfers": 1,
            "executed_channel_transfers": 5,
            "skipped_transfers": 0,
            "executed_updates": len(UPDATE_STEPS),
        }
    row |= changes
    return parts_of(row["peak_allocated_bytes"]) | row


def parts_of(peak: int | None) -> Row:
    """Of the memory at the peak: an eighth each, and the rest."""
    if peak is None:
        return {}
    parts = {f"peak_{part}_bytes": peak // 8 for part in MEMORY_PARTS}
    return parts | {"peak_rest_bytes": peak - 6 * (peak // 8)}


def step_rows(run: Row, ordinary_ms: float | None = None, noise: float = 0.02) -> list[Row]:
    """One row per step; with noise 0 every step of a kind takes the same time."""
    rng = np.random.default_rng(abs(hash_of(run["run_id"])))
    base = ordinary_ms or true_ordinary_ms(run["method"], run["density"])
    launch = 1 + noise / 2 * rng.standard_normal()
    widths = _widths(run)
    rows = []
    for step in range(1, run["total_steps"] + 1):
        updated = bool(run["is_dynamic"]) and step in UPDATE_STEPS and run["executed_updates"]
        flags = [WARM_UP] if step <= WARM_UPS else []
        if run["is_dynamic"] and WINDOW[0] < step <= WINDOW[1]:
            flags.append(COLLECTING)
        if updated:
            flags.append(UPDATE)
        ms = base * launch * (1 + noise * rng.standard_normal())
        ms *= 50 if step <= WARM_UPS else 1  # a warm-up that is not excluded must show
        topology = UPDATE_EXTRA_MS if updated else 0.0
        rows.append(
            {
                "step": step,
                "flags": flags,
                "step_ms": ms + topology,
                "forward_ms": 0.3 * ms,
                "backward_ms": 0.6 * ms,
                "optimizer_ms": 0.1 * ms,
                "topology_ms": topology if run["is_dynamic"] else None,
                "loss": 2.3 * float(np.exp(-step / 80)),
                "learning_rate": 0.001,
                "heads_per_layer": [int(n) for n in widths[step - 1][0]],
                "channels_per_layer": [int(n) for n in widths[step - 1][1]],
                "training_macs": round(DENSE_MACS * run["density"] * 64),
                "ideal_training_macs": round(DENSE_MACS * run["density"] * 64),
                "peak_allocated_bytes": run["peak_allocated_bytes"],
                "dispatched_operators": OPERATORS
                + COLLECTING_OPERATORS * (COLLECTING in flags)
                # The one transfer of a head takes more operators than one of a channel.
                + (UPDATE_OPERATORS + 50 * (step == HEAD_STEP)) * bool(updated),
                "host_synchronisations": int(bool(updated)),
            }
        )
    return rows


def eval_rows(run: Row) -> list[Row]:
    """Validation every 20 steps, rising towards the run's test accuracy."""
    goal = run["test_top1_percent"]
    return [
        {
            "step": step,
            "split": "validation",
            "loss": 2.3 * float(np.exp(-step / 60)),
            "top1_percent": 10 + (goal - 10) * (1 - float(np.exp(-step / 40))),
            "macro_f1_percent": 9 + (goal - 10) * (1 - float(np.exp(-step / 40))),
            "images": 360,
            "cumulative_training_macs": DENSE_MACS * run["density"] * 64 * step,
        }
        for step in range(20, run["total_steps"] + 1, 20)
    ]


def update_rows(run: Row) -> list[Row]:
    if not run["is_dynamic"] or not run["executed_updates"]:
        return []
    return [
        {
            "step": step,
            "unit_type": "head" if step == HEAD_STEP else "channel",
            "executed": True,
            "receiver_layer": 0,
            "parent_unit": 0,
            "donor_layer": LAYERS - 1,
            "donor_unit": 0,
            "active_parameters": run["active_parameters"],
        }
        for step in UPDATE_STEPS
    ]


def tables_of(run: Row, ordinary_ms: float | None = None, noise: float = 0.02) -> Tables:
    """All tables of one run; a run that is not ok has only its `runs` row."""
    if run["status"] != "ok":
        return {"runs": [run]}
    return {
        "runs": [run],
        "steps": step_rows(run, ordinary_ms, noise),
        "evals": [] if run["synthetic_data"] else eval_rows(run),
        "updates": update_rows(run),
    }


def demo_runs() -> list[Row]:
    """3 methods x 2 densities x 3 seeds (dense: density 1 only), one failed, one invalid."""
    runs = [run_row("dense", 1.0, seed) for seed in range(3)]
    runs += [
        run_row(method, density, seed)
        for method in ("static", "barter")
        for density in (0.1, 0.3)
        for seed in range(3)
    ]
    failed = run_row("static", 0.1, 2, status="failed", reason="loss is not finite | step 31")
    invalid = run_row(
        "barter",
        0.1,
        2,
        executed_updates=0,
        executed_head_transfers=0,
        executed_channel_transfers=0,
        skipped_transfers=6,
    )
    replaced = {failed["run_id"]: failed, invalid["run_id"]: invalid}
    return [replaced.get(run["run_id"], run) for run in runs]


def write_study(root: Path, runs: list[Row], study: str = "demo", **of: Any) -> StudyStore:
    """Record the runs and return the store; keyword arguments go to `tables_of`."""
    store = StudyStore(root, study)
    for run in runs:
        store.write_run(run["run_id"], tables_of(run, **of))
    return store


def hash_of(text: str) -> int:
    """A seed that does not change between processes (`hash` does)."""
    return int.from_bytes(text.encode()[-7:], "big")


def _widths(run: Row) -> list[tuple[np.ndarray, np.ndarray]]:
    """Widths during each step's forward pass: an update at step s shows from step s + 1."""
    heads = np.full(LAYERS, max(1, round(HEADS * run["density"])))
    channels = np.full(LAYERS, max(2, round(CHANNELS * run["density"])))
    updates = {update["step"]: update for update in update_rows(run)}
    widths = []
    for step in range(1, run["total_steps"] + 1):
        widths.append((heads.copy(), channels.copy()))
        if step in updates:
            units = heads if updates[step]["unit_type"] == "head" else channels
            units[updates[step]["receiver_layer"]] += 1
            units[updates[step]["donor_layer"]] -= 1
    return widths
