"""Tables of time: step time, speed-ups, kinds of step."""

from collections.abc import Iterable, Sequence
from typing import Any

from reports import captions
from reports.formats import estimate, integer
from reports.load import (
    COLLECTING_KIND,
    DENSE_GRADIENT_KIND,
    ORDINARY_KIND,
    UPDATE_KIND,
    Records,
)
from reports.speedups import dense_reference, not_compared, pairs, speedup, why_not
from reports.summary import Summary
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section


def step_time(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("steps", "steps", integer),
        Column("step_mean_ms", "mean, ms [95%]", estimate, interval=True),
        Column("step_median_ms", "median, ms [95%]", estimate, interval=True),
        Column("speedup_over_dense", "speed-up over dense [95%]", estimate, interval=True),
    )
    sections = []
    for setting, here in by_setting(summaries):
        dense = dense_reference(summaries, setting)
        notes = captions.timing_notes(here)
        if dense is None:
            notes.append("No valid dense run in this setting: no speed-up over dense.")
        rows = [
            {
                "runs": s.times.mean.runs if s.times.mean else len(s.contender.runs),
                "steps": s.times.mean.steps if s.times.mean else 0,
                "step_mean_ms": s.times.mean or Shown("no timed step"),
                "step_median_ms": s.times.median,
                "speedup_over_dense": _over_dense(s, dense),
            }
            for s in here
        ]
        sections.append(section(records, setting, here, columns, rows, notes))
    notes = [
        "The mean is over every step of the executed schedule after warm-up, update steps among "
        "them. Speed-up: dense mean divided by the method's mean; above 1 the method is faster.",
        *not_compared(summaries, records.forced),
        captions.INTERVAL,
        captions.SEQUENTIAL,
    ]
    return Table("step_time", "Step time", sections, notes)


def _over_dense(summary: Summary, dense: Summary | None) -> Any:
    if not summary.contender.valid:
        return Shown("invalid")
    if dense is None:
        return None
    return Shown("1 (reference)", 1.0) if summary is dense else speedup(summary, dense)


def speedups(records: Records, summaries: Sequence[Summary]) -> Table:
    """Row over column. As CSV: one line per ordered pair."""
    sections = []
    for setting, here in by_setting(summaries):
        valid = [s for s in here if not why_not(s, s)]
        if len(valid) < 2:
            continue
        names = [s.contender.label_with_density for s in valid]
        columns = [Column("row", "row over column", text=True)]
        columns += [Column(n, n, estimate, interval=True) for n in names]
        rows = [
            {
                "row": name,
                **{
                    other: "1" if fast is slow else speedup(fast, slow)
                    for other, slow in zip(names, valid, strict=True)
                },
            }
            for name, fast in zip(names, valid, strict=True)
        ]
        counts = ", ".join(
            f"{name} {s.times.mean.runs} / {s.times.mean.steps:,}"
            for name, s in zip(names, valid, strict=True)
            if s.times.mean
        )
        notes = [
            f"n, runs / steps: {counts}.",
            *captions.timing_notes(valid),
            *captions.left_out(records, setting),
        ]
        runs = [run for s in here for run in s.contender.runs]
        sections.append(Section(captions.caption(setting, runs), columns, rows, notes))
    notes = [
        "Mean step time of the column divided by that of the row: above 1, the row is faster.",
        *not_compared(summaries, records.forced),
        captions.INTERVAL,
        captions.SEQUENTIAL,
    ]
    return Table("speedups", "Speed-up, each over each other", sections, notes, _pairs(summaries))


def _pairs(summaries: Sequence[Summary]) -> Section:
    columns = (
        *(Column(name, name) for name in captions.setting_columns(summaries[0].contender.setting)),
        METHOD,
        DENSITY,
        Column("over_method", "over"),
        Column("over_density", "density"),
        Column("speedup", "speed-up", estimate, interval=True),
        *(Column(key, key) for key in ("runs", "steps", "over_runs", "over_steps")),
    )
    rows = []
    for pair in pairs(summaries):
        fast, slow = pair.fast.contender, pair.slow.contender
        counts = {}
        for prefix, side in (("", pair.fast), ("over_", pair.slow)):
            if side.times.mean is not None:
                counts[f"{prefix}runs"] = side.times.mean.runs
                counts[f"{prefix}steps"] = side.times.mean.steps
        rows.append(
            {
                **captions.setting_columns(fast.setting),
                "method": fast.label,
                "density": fast.density,
                "over_method": slow.label,
                "over_density": slow.density,
                "speedup": pair.factor,
                **counts,
            }
        )
    return Section("", columns, rows)


def kinds_of_step(records: Records, summaries: Sequence[Summary]) -> Table:
    """Ordinary, collecting, dense-gradient and update steps apart; the cost of the topology."""
    columns = [
        METHOD,
        DENSITY,
        Column("step_counts", "n of each kind"),
        Column("ordinary_ms", "ordinary, ms [95%]", estimate, interval=True),
        Column("collecting_ms", "collecting, ms [95%]", estimate, interval=True),
        Column("dense_gradient_ms", "dense gradient, ms [95%]", estimate, interval=True),
        Column("update_ms", "update, ms [95%]", estimate, interval=True),
        Column("topology_ms_per_step", "topology, ms per step [95%]", estimate, interval=True),
        Column("update_cost_ms_per_step", "update cost, ms per step [95%]", estimate, True),
    ]
    kinds = {
        ORDINARY_KIND: "ordinary",
        COLLECTING_KIND: "collecting",
        DENSE_GRADIENT_KIND: "dense gradient",
        UPDATE_KIND: "update",
    }
    if not any(s.times.dense_gradient for s in summaries):
        columns = [column for column in columns if column.key != "dense_gradient_ms"]
        del kinds[DENSE_GRADIENT_KIND]
    sections = []
    for setting, here in by_setting(summaries):
        rows = [
            {
                "step_counts": _kind_counts(s, kinds),
                "ordinary_ms": s.times.ordinary,
                "collecting_ms": s.times.collecting,
                "dense_gradient_ms": s.times.dense_gradient,
                "update_ms": s.times.update,
                "topology_ms_per_step": s.times.topology,
                "update_cost_ms_per_step": s.times.update_cost,
            }
            for s in here
        ]
        notes = captions.timing_notes(here)
        sections.append(section(records, setting, here, columns, rows, notes))
    notes = [
        f"n of each kind: steps, {' / '.join(kinds.values())}.",
        "Topology: time in the topology update and the re-imposed invariant, averaged over all "
        "optimizer steps. Update cost: update steps minus as many collecting (else ordinary, "
        "else dense-gradient) steps, divided by all steps; it also holds what an update costs "
        "elsewhere in its step.",
        captions.INTERVAL,
    ]
    return Table("kinds_of_step", "Kinds of step and topology cost", sections, notes)


def _kind_counts(summary: Summary, kinds: Iterable[int]) -> str:
    counts = [
        sum(int((run.steps.launch.kinds == kind).sum()) for run in summary.contender.runs)
        for kind in kinds
    ]
    return " / ".join(f"{count:,}" for count in counts)
