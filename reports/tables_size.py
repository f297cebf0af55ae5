"""Tables of size: compute, parameters."""

from collections.abc import Sequence
from typing import Any

from reports.formats import integer, millions, number, spread
from reports.load import Records
from reports.speedups import dense_reference
from reports.summary import Range, Summary
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section


def compute(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("macs_forward_per_image", "forward, M MACs per image", millions),
        Column("macs_training_per_image", "training, M MACs per image", millions),
        Column("macs_ideal_per_image", "ideal training, M MACs per image", millions),
        Column("macs_recomputed_per_image", "recomputed, M MACs per image", millions),
        Column("training_flops_total", "whole run, TFLOPs", lambda x: number(x / 1e12, 4)),
        Column("executed_speedup", "dense / executed", number),
        Column("ideal_speedup", "dense / ideal", number),
    )
    sections = []
    for setting, here in by_setting(summaries):
        dense = dense_reference(summaries, setting)
        rows = [
            {
                "macs_forward_per_image": _mean(s.macs_forward),
                "macs_training_per_image": _mean(s.macs_training),
                "macs_ideal_per_image": _mean(s.macs_ideal),
                "macs_recomputed_per_image": _mean(s.macs_recomputed),
                "training_flops_total": 2 * s.macs_total.mean if s.macs_total else None,
                "executed_speedup": _fewer(s, dense, s.macs_training),
                "ideal_speedup": _fewer(s, dense, s.macs_ideal),
            }
            for s in here
        ]
        sections.append(section(records, setting, here, columns, rows))
    notes = [
        "Multiply-accumulates; training is forward plus backward, mean over all steps and runs, "
        "without recomputation. Forward and training: of the operator shapes executed. Ideal: what "
        "the topology would need were nothing inactive computed, with dense weight gradients "
        "wherever the method uses them; a masked method does not realise it. Dense / executed and "
        "dense / ideal: what the step time would gain if it followed one or the other. FLOPs = 2 "
        "MACs.",
    ]
    return Table("compute", "Compute", sections, notes)


def _fewer(summary: Summary, dense: Summary | None, macs: Range | None) -> Any:
    """How many times fewer MACs than dense."""
    if not summary.contender.valid:
        return Shown("invalid")
    if dense is None or not dense.macs_training or not macs:
        return None
    if summary is dense:
        return Shown("1 (reference)", 1.0)
    return dense.macs_training.mean / macs.mean


def parameters(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("active_during", "active at updates, smallest to largest"),
        Column("allowed_parameters", "allowed by the method's rule", integer),
        Column("budget_invariant", "active are", text=True),
        Column("budget_parameters", "budget", integer),
        Column("active_per_budget", "active / budget", lambda x: f"{x:.5f}"),
        Column("stored_parameters", "stored", integer),
    )
    sections = []
    for setting, here in by_setting(summaries):
        rows = [
            {
                "active_during": s.active_during and spread(Range(*s.active_during, 0.0), integer),
                "allowed_parameters": _mean(s.allowed),
                "budget_invariant": ", ".join(s.invariants) or None,
                "budget_parameters": _mean(s.budget),
                "active_per_budget": s.budget_ratio,
                "stored_parameters": _mean(s.stored),
            }
            for s in here
        ]
        sections.append(section(records, setting, here, columns, rows))
    notes = [
        "Whole model. Budget: density times the weights of attention and FFN, all biases and all "
        "the rest. Allowed: what the method's own rule makes of the density, and how its active "
        "parameters stand to that at all times. Stored: physically in the exported model (mean "
        "over runs). The ratio is that of the run furthest from its budget.",
    ]
    return Table("parameters", "Parameters", sections, notes)


def _mean(values: Range | None) -> float | None:
    return values.mean if values else None
