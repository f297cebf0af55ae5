"""Predictions as rows: what `bench plan --predict --json` prints. Torch is loaded to make them."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.predict.target import Target
from bench.run_spec import RunSpec
from bench.schema import MEMORY_PARTS
from bench.spec import StudySpec

if TYPE_CHECKING:
    from bench.predict.prediction import Prediction, Unpredicted

Row = dict[str, Any]

PEAK = "predicted_peak_allocated_bytes"
PARTS = {part: f"predicted_peak_{part}_bytes" for part in MEMORY_PARTS}
"""Part of the peak -> its column; they add up to PEAK."""

COLUMNS = (
    *("workload", "method", "density", "kind", "step", "batch_size", "device", "gpu"),
    *("attention", "attention_kernel", "execution", "tf32", "autocast", "optimizer"),
    "pad_channels",
    *(PEAK, *PARTS.values(), "workspace_included", "gpu_memory_bytes"),
    *("executed_macs", "executed_forward_macs", "executed_backward_macs", "recomputed_macs"),
    *("ideal_macs", "predicted_moved_bytes", "predicted_step_ms", "reason"),
)
"""Keys of every row, in order. MACs, bytes and times are those of one step, a whole minibatch."""


def predicted_rows(
    spec: StudySpec, target: Target, told: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """One row per run (of one seed each) and kind of step.

    Args:
        told: the title of each run before it is predicted.

    Raises:
        UsageError: the target cannot do what a grid asks for.
    """
    for grid in spec.grids:
        target.check(grid.execution)
    from bench.predict.prediction import predict

    rows = []
    for run in one_seed(replace(spec, device=target.kind)).runs():
        told(run.title)
        rows += [_row(run, target, prediction) for prediction in predict(run)]
    return rows


def one_seed(spec: StudySpec) -> StudySpec:
    """Each grid with its first seed: no cost depends on it."""
    grids = (replace(grid, seeds=grid.seeds[:1]) for grid in spec.grids)
    return replace(spec, grids=tuple(dict.fromkeys(grids)))


def _row(run: RunSpec, target: Target, prediction: "Prediction | Unpredicted") -> Row:
    row = dict.fromkeys(COLUMNS) | {
        "workload": run.workload,
        "method": run.contender,
        "density": run.density,
        "batch_size": run.batch_size,
        "device": target.kind,
        "gpu": target.card.name if target.card and target.kind == "cuda" else None,
        "attention": run.execution.attention,
        "execution": run.unusual,
        "tf32": run.tf32,
        "autocast": run.execution.autocast,
        "optimizer": run.execution.optimizer,
        "pad_channels": run.execution.pad_channels,
        "workspace_included": False,
        "gpu_memory_bytes": target.card.memory_bytes if target.card else None,
    }
    if prediction.kind:
        row |= {"kind": prediction.kind.name, "step": prediction.kind.step}
    return row | prediction.columns(target.card)
