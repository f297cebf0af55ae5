"""Rows of the runs table for runs that gave no records, and what is known of a run beforehand.

No torch: the process that starts runs writes these when a run's own process died.
"""

from datetime import UTC, datetime
from typing import Any

from bench.run_spec import RunSpec
from bench.schema import FAILED
from bench.workloads.registry import get_workload

Row = dict[str, Any]


def run_identity(spec: RunSpec, study: str) -> Row:
    """What is known of a run before it starts."""
    workload = get_workload(spec.workload)
    full = workload.total_steps(spec.batch_size)
    return {
        "run_id": spec.run_id,
        "study": study,
        "workload": spec.workload,
        "method": spec.method,
        "density": spec.density,
        "seed": spec.seed,
        "mode": spec.mode,
        "total_steps": spec.total_steps,
        "full_schedule_steps": full,
        "schedule_shortened": spec.total_steps != full and not spec.continued,
        "batch_size": spec.batch_size,
        "learning_rate": spec.recipe.learning_rate,
        "start": spec.start.kind if spec.start else None,
        "start_run_id": spec.start.run_id if spec.start else None,
        "steps_before": spec.continued.steps if spec.continued else None,
        "training_macs_before": spec.continued.training_macs if spec.continued else None,
        "synthetic_data": workload.data == "synthetic" and spec.dataset is None,
        "config_json": spec.to_json(),
        "device": spec.device,
        "autocast": spec.execution.autocast,
        "compile": spec.execution.compile,
        "attention": spec.execution.attention,
        "optimizer": spec.execution.optimizer,
        "recompute": spec.execution.recompute,
        "cuda_graphs": spec.execution.cuda_graphs,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def failed_run(identity: Row, reason: str, status: str = FAILED) -> Row:
    """The runs row of a run that gave no records: never a gap."""
    return identity | {"status": status, "reason": reason, "reason_codes": []}
