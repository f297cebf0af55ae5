"""Tables of memory: the peak, what it is made of, and the peak of every kind of step."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.schema import MEMORY_PARTS
from reports.formats import mib, share, spread
from reports.load import (
    COLLECTING_KIND,
    DENSE_GRADIENT_KIND,
    ORDINARY_KIND,
    UPDATE_KIND,
    Records,
    Run,
)
from reports.speedups import dense_reference
from reports.step_counts import over_runs
from reports.summary import MIB, Range, Summary
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section

ALLOCATOR = "allocator"
HEADS = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "method_state": "masks and scores",
    "batch": "batch",
    "activations": "activations",
    "rest": "rest",
}
"""Part -> head of its column."""
KINDS = {
    ORDINARY_KIND: "ordinary",
    COLLECTING_KIND: "collecting",
    DENSE_GRADIENT_KIND: "dense_gradient",
    UPDATE_KIND: "update",
}


def fixed(value: float) -> str:
    """As many decimals for all parts, so that a reader can add them up."""
    return f"{value:,.3f}"


PART_COLUMNS = (
    *(Column(f"{part}_mib", f"{HEADS[part]}, MiB", fixed) for part in MEMORY_PARTS),
    Column("sum_mib", "sum, MiB", fixed),
)
OUTSIDE = Column("outside_mib", "allocator's peak minus sum, MiB", fixed)
ALLOCATOR_NOTE = (
    "The allocator's own peak, which is the headline, also holds the data set at rest, "
    "workspaces inside operators, and what the device's libraries allocate."
)


def memory(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = [
        METHOD,
        DENSITY,
        RUNS,
        Column("peak_allocated_mib", "peak allocated, MiB"),
        Column("reduction_percent", "less than dense, %", share),
        Column("peak_reserved_mib", "peak reserved, MiB"),
        Column("memory_source", "source", text=True),
    ]
    if not any(s.peak_reserved for s in summaries):
        columns = [column for column in columns if column.key != "peak_reserved_mib"]
    sections = []
    for setting, here in by_setting(summaries):
        dense = dense_reference(summaries, setting)
        rows = [
            {
                "peak_allocated_mib": _mib(s.peak_allocated),
                "reduction_percent": _reduction(s, dense),
                "peak_reserved_mib": _mib(s.peak_reserved),
                "memory_source": ", ".join(s.memory_sources),
            }
            for s in here
        ]
        sections.append(section(records, setting, here, columns, rows))
    notes = [
        "Peak over all kinds of step; smallest to largest where runs differ, the largest counts. "
        "Source accounted: bytes of tensors in an untimed, deterministic pass; allocator: the "
        "device allocator's own peak.",
    ]
    return Table("memory", "Memory", sections, notes)


def memory_by_cause(records: Records, summaries: Sequence[Summary]) -> Table:
    """Nothing for records that are older than the parts."""
    shown = [summary for summary in summaries if largest_run(summary)]
    columns = [
        METHOD,
        DENSITY,
        *PART_COLUMNS,
        OUTSIDE,
    ]
    if not any(ALLOCATOR in s.memory_sources for s in shown):
        columns.pop()
    sections = []
    for setting, here in by_setting(shown):
        rows = [
            parts_row(parts_of(run), _allocators_peak(run)) for s in here if (run := largest_run(s))
        ]
        sections.append(section(records, setting, here, columns, rows))
    notes = [
        "The peak of the kind of step with the largest one, at its highest moment, in the run with "
        "the largest: bytes of tensors in an untimed, deterministic pass, every tensor in exactly "
        "one part. Gradients: of parameters. Activations: made in the forward pass and alive at "
        "its end, as the backward pass needs them. Rest: temporaries, gradients of activations "
        "among them. The data set at rest is in no part.",
    ]
    if any(ALLOCATOR in s.memory_sources for s in shown):
        notes.append(ALLOCATOR_NOTE)
    return Table("memory_by_cause", "Memory by cause", sections, notes)


def memory_by_kind(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = [
        METHOD,
        DENSITY,
        RUNS,
        *(
            Column(f"{name}_peak_mib", f"{name.replace('_', ' ')}, MiB")
            for kind, name in KINDS.items()
            if any(kind in run.steps.peaks for s in summaries for run in s.contender.runs)
        ),
    ]
    sections = []
    for setting, here in by_setting(summaries):
        rows = [_kinds_row(s) for s in here]
        if any(rows):
            sections.append(section(records, setting, here, columns, rows))
    notes = [
        "Peak allocated of each kind of step, warm-up included; smallest to largest where steps or "
        "runs differ. A step that is of several kinds counts as the last of them."
    ]
    return Table("memory_by_kind", "Peak memory by kind of step", sections, notes)


def parts_of(row: Mapping[str, Any] | Run) -> dict[str, int]:
    """Bytes of every part, from a row of `runs` or `segments`; empty if it does not know them."""
    parts = {part: row[f"peak_{part}_bytes"] for part in MEMORY_PARTS}
    return {} if None in parts.values() else parts


def largest_run(summary: Summary) -> Run | None:
    """The run with the largest accounted peak; None if no run knows its parts."""
    known = [run for run in summary.contender.runs if parts_of(run)]
    return max(known, key=lambda run: sum(parts_of(run).values()), default=None)


def _allocators_peak(run: Run) -> int | None:
    return run["peak_allocated_bytes"] if run["memory_source"] == ALLOCATOR else None


def parts_row(parts: Mapping[str, int], allocators_peak: int | None) -> dict[str, float]:
    """Cells of PART_COLUMNS, and of OUTSIDE where there is an allocator's peak (bytes)."""
    total = sum(parts.values())
    row = {f"{part}_mib": size / MIB for part, size in parts.items()} | {"sum_mib": total / MIB}
    if allocators_peak is not None:
        row["outside_mib"] = (allocators_peak - total) / MIB
    return row


def _kinds_row(summary: Summary) -> dict[str, Any]:
    counts = over_runs(run.steps.peaks for run in summary.contender.runs)
    return {
        f"{KINDS[kind]}_peak_mib": _mib(Range(count.low, count.high, count.mean))
        for kind, count in counts.items()
    }


def _mib(values: Range | None) -> Shown | None:
    return Shown(spread(values, mib), values.high / MIB) if values else None


def _reduction(summary: Summary, dense: Summary | None) -> Any:
    if dense is None or not dense.peak_allocated or not summary.peak_allocated:
        return None
    if summary is dense:
        return Shown("reference", 0.0)
    if summary.memory_sources != dense.memory_sources:
        return Shown("other source")
    return 100 * (1 - summary.peak_allocated.high / dense.peak_allocated.high)
