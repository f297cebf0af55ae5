"""Rows of the runs table for runs that gave no records, and what is known of a run beforehand.

No torch: the process that starts runs writes these when a run's own process died.
"""

from datetime import UTC, datetime
from typing import Any

from bench.schema import FAILED
from bench.spec import RunSpec
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
        "schedule_shortened": spec.total_steps != full,
        "batch_size": spec.batch_size,
        "synthetic_data": workload.data == "synthetic" and spec.dataset is None,
        "config_json": spec.to_json(),
        "device": spec.device,
        "autocast": spec.execution.autocast,
        "compile": spec.execution.compile,
        "attention": spec.execution.attention,
        "optimizer": spec.execution.optimizer,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def failed_run(identity: Row, reason: str, status: str = FAILED) -> Row:
    """The runs row of a run that gave no records: never a gap."""
    return identity | {"status": status, "reason": reason, "reason_codes": []}
