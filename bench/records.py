"""From a finished training to rows of the record tables."""

import json
from collections.abc import Collection
from itertools import accumulate

from bench.ideal_macs import ideal_training_macs
from bench.memory_parts import peak_columns
from bench.reason_codes import (
    BUDGET_BROKEN,
    NO_UPDATE_EXECUTED,
    NO_WARM_UP,
    RESUMED,
    SYNTHETIC_DATA,
    TRANSFER_SKIPPED,
)
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.schema import DENSE_GRADIENT, OK, WARM_UP
from bench.session import Session
from bench.train import Training
from bench.workloads.registry import get_workload
from methods.base import Topology
from methods.budget import attention_budget, ffn_budget, unit_budget


def finished_run(identity: Row, training: Training) -> dict[str, list[Row]]:
    """All tables of a finished run, but for its environment and duration."""
    steps = step_rows(training)
    return {
        "runs": [identity | summary(training, steps)],
        "steps": steps,
        "evals": evaluation_rows(training, steps),
        "updates": training.updates,
    }


def step_rows(training: Training) -> list[Row]:
    rows = []
    for number, record in enumerate(training.steps, start=1):
        assert record.times is not None, "a step was never read from the clock"
        account = training.accounts[record.kind]
        allocated, reserved = record.allocator_peak or (account.peak_allocated_bytes, None)
        topology, spans = record.kind[0], record.times.spans
        rows.append(
            {
                "step": number,
                "flags": list(record.flags),
                "step_ms": record.times.step_ms,
                "forward_ms": spans["forward"],
                "backward_ms": spans["backward"],
                "optimizer_ms": spans["optimizer"],
                "topology_ms": spans["topology"],
                "loss": record.loss,
                "learning_rate": record.learning_rate,
                "heads_per_layer": list(topology.heads_per_layer),
                "channels_per_layer": list(topology.channels_per_layer),
                "training_macs": account.macs.training,
                "ideal_training_macs": ideal_step_macs(
                    training.session.spec, topology, record.active_parameters, record.flags
                ),
                "peak_allocated_bytes": allocated,
                "peak_reserved_bytes": reserved,
                "dispatched_operators": account.operators,
                "host_synchronisations": account.host_synchronisations,
            }
        )
    return rows


def ideal_step_macs(
    spec: RunSpec, topology: Topology, active_parameters: int, flags: Collection[str]
) -> int:
    """Of one minibatch, by what is active in its forward pass and the step's flags."""
    return spec.batch_size * ideal_training_macs(
        get_workload(spec.workload).shape,
        sum(topology.heads_per_layer),
        sum(topology.channels_per_layer),
        active_parameters,
        DENSE_GRADIENT in flags,
    )


def evaluation_rows(training: Training, steps: list[Row]) -> list[Row]:
    """Evaluations with the compute spent until then, that of a continued run included."""
    continued = training.session.spec.continued
    before = continued.training_macs if continued else 0.0
    spent = [before + macs for macs in accumulate(float(row["training_macs"]) for row in steps)]
    return [row | {"cumulative_training_macs": spent[row["step"] - 1]} for row in training.evals]


def summary(training: Training, steps: list[Row]) -> Row:
    """The runs row's figures."""
    session, spec = training.session, training.session.spec
    test = training.test
    executed = [row for row in training.updates if row["executed"]]
    scheduled = session.scheduled_transfers()
    macs = training.accounts[training.steps[-1].kind].macs
    reserved = [row["peak_reserved_bytes"] for row in steps if row["peak_reserved_bytes"]]
    return {
        "status": OK,
        "reason": None,
        "reason_codes": reason_codes(training),
        **method_facts(session),
        "recompiles": training.recompiles,
        "captures": training.captures,
        "executed_head_transfers": _count(executed, "head") if scheduled else None,
        "executed_channel_transfers": _count(executed, "channel") if scheduled else None,
        "skipped_transfers": len(training.updates) - len(executed) if scheduled else None,
        "executed_updates": len({row["step"] for row in executed}),
        "active_parameters": training.active_parameters[-1],
        "active_parameters_min": min(training.active_parameters),
        "active_parameters_max": max(training.active_parameters),
        "stored_parameters": training.stored_parameters,
        "macs_forward_per_image": macs.forward // spec.batch_size,
        "macs_backward_per_image": macs.backward // spec.batch_size,
        "macs_recomputed_per_image": macs.recomputed // spec.batch_size,
        "training_macs_total": sum(float(row["training_macs"]) for row in steps),
        "ideal_training_macs_total": sum(float(row["ideal_training_macs"]) for row in steps),
        "peak_allocated_bytes": max(row["peak_allocated_bytes"] for row in steps),
        "peak_reserved_bytes": max(reserved, default=None),
        "memory_source": "allocator" if session.device.type == "cuda" else "accounted",
        **peak_columns(account.peak_parts for account in training.accounts.values()),
        "selected_step": training.selected[0] if training.selected else None,
        "test_loss": test.loss if test else None,
        "test_top1_percent": test.top1_percent if test else None,
        "test_macro_f1_percent": test.macro_f1_percent if test else None,
        "test_images": test.images if test else None,
    }


def method_facts(session: Session) -> Row:
    """What is known of a run's method before its first step."""
    method = session.method
    scheduled = session.scheduled_transfers()
    return {
        "is_dynamic": session.is_dynamic,
        "realisation": method.realisation,
        "update_order": method.update_order.value,
        "scheduled_head_transfers": scheduled.get("head"),
        "scheduled_channel_transfers": scheduled.get("channel"),
        "budget_parameters": parameter_budget(session.spec),
        "allowed_parameters": method.allowed_parameters(),
        "budget_invariant": str(method.budget_invariant),
    }


def reason_codes(training: Training) -> list[str]:
    """Why the figures deserve caution."""
    codes = {
        NO_UPDATE_EXECUTED: training.session.is_dynamic
        and not any(row["executed"] for row in training.updates),
        TRANSFER_SKIPPED: any(not row["executed"] for row in training.updates),
        SYNTHETIC_DATA: training.session.data.synthetic,
        BUDGET_BROKEN: not training.keeps_budget(),
        NO_WARM_UP: not any(WARM_UP in record.flags for record in training.steps),
        RESUMED: training.steps_before > 0,
    }
    return [*(code for code, holds in codes.items() if holds), *training.disturbance_codes]


def parameter_budget(spec: RunSpec) -> int:
    """Parameters of the whole model that the density allows: a masked model's active ones."""
    shape = get_workload(spec.workload).shape
    dense = shape.parameters(shape.blocks.total_heads, shape.blocks.total_channels)
    full = unit_budget(shape.blocks, 1.0).parameters(shape.blocks)
    active = attention_budget(shape.blocks, spec.density) + ffn_budget(shape.blocks, spec.density)
    return dense - full + int(active)


def environment_columns(environment: Row) -> Row:
    """The columns of the runs table that describe the machine."""
    names = ("device_name", "driver", "torch_version", "threads", "tf32", "git_commit")
    columns = {name: environment.get(name) for name in names}
    return columns | {"environment_json": json.dumps(environment, sort_keys=True)}


def _count(rows: list[Row], unit_type: str) -> int:
    return sum(row["unit_type"] == unit_type for row in rows)
