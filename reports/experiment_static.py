"""The experiment `static`: what BARTER's transfers add to its own initial allocation."""

from collections.abc import Sequence
from typing import Any

from reports import captions, differences, published
from reports.differences import judge
from reports.experiment_accuracy import (
    PUBLISHED_DIFFERENCE,
    SYNTHETIC_NOTE,
    TEST_NOTE,
    accuracy_cells,
    beside,
)
from reports.experiment_family import Family, Study
from reports.formats import estimate, integer, percent, points
from reports.speedups import speedup
from reports.statistics import Estimate
from reports.summary import Range, Summary, by_seed, difference_by_seed, paired_difference
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section
from reports.tables_outcome import SYNTHETIC

Pair = tuple[Summary, Summary]
"""BARTER and Static of one setting and density."""


def tables(family: Family) -> list[Table]:
    study = family.here
    pairs = [(s, other) for s in study.summaries if (other := _static_beside(s, study))]
    return [_accuracy(study, pairs), _costs(study)]


def _static_beside(summary: Summary, study: Study) -> Summary | None:
    """Of BARTER; None for all others."""
    contender = summary.contender
    if contender.name != "barter" or not contender.valid:
        return None
    return beside("static", summary, study.summaries)


def _accuracy(study: Study, pairs: Sequence[Pair]) -> Table:
    top1 = [
        Column(f"{name}_top1_percent", f"{name} top-1, % [95%]", percent, interval=True)
        for name in ("barter", "static")
    ]
    macro_f1 = [
        Column(f"{name}_macro_f1_percent", f"{name} macro-F1, % [95%]", percent, interval=True)
        for name in ("barter", "static")
    ]
    title = "macro-F1, barter minus static, points [95%]"
    columns = [
        *(DENSITY, Column("seeds", "common seeds", integer), *top1),
        *(*differences.columns("top-1, barter minus static"), PUBLISHED_DIFFERENCE),
        *(*macro_f1, Column("macro_f1_difference_points", title, points, interval=True)),
    ]
    judged = judge([_top1_difference(pair) for pair in pairs])
    verdicts = {id(barter): one for (barter, _), one in zip(pairs, judged, strict=True)}
    statics = {id(barter): static for barter, static in pairs}
    sections, shown = [], []
    for setting, here in by_setting([barter for barter, _ in pairs]):
        over = published.OVER_STATIC.get(setting["workload"])
        shown.append(over)
        rows = []
        for barter in here:
            static = statics[id(barter)]
            row = _accuracy_row(barter, static) | {
                "published_difference_points": published.cell(over, sign=True)
            }
            if setting["synthetic_data"]:
                row["verdict"] = SYNTHETIC
            else:
                row |= differences.cells(verdicts[id(barter)])
            rows.append(row)
        notes = [SYNTHETIC_NOTE] if setting["synthetic_data"] else []
        sections.append(section(study.records, setting, here, columns, rows, notes))
    notes = [
        f"{TEST_NOTE} Active parameters are BARTER's. Both start from the same allocation and "
        "weights on a seed. The verdicts are on top-1.",
        differences.family_note(judged),
        published.note(shown, published.OTHER_MODEL),
    ]
    return Table("experiment_static", "BARTER against Static, accuracy", sections, notes)


def _top1_difference(pair: Pair) -> Estimate | None:
    synthetic = pair[0].contender.setting["synthetic_data"]
    return None if synthetic else paired_difference(*pair)


def _accuracy_row(barter: Summary, static: Summary) -> dict[str, Any]:
    mine, theirs = accuracy_cells(barter), accuracy_cells(static)
    f1 = [by_seed(s.contender.runs, "test_macro_f1_percent") for s in (barter, static)]
    return {
        "seeds": len(set(barter.contender.seeds) & set(static.contender.seeds)),
        "barter_top1_percent": mine["top1_percent"],
        "static_top1_percent": theirs["top1_percent"],
        "barter_macro_f1_percent": mine["macro_f1_percent"],
        "static_macro_f1_percent": theirs["macro_f1_percent"],
        "macro_f1_difference_points": difference_by_seed(*f1),
    }


def _costs(study: Study) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("active_at_end", "active parameters", integer),
        Column("stored_parameters", "stored parameters", integer),
        Column("step_mean_ms", "mean step, ms [95%]", estimate, interval=True),
        Column("time_over_static", "step time over static's [95%]", estimate, interval=True),
    )
    sections = []
    compact = [s for s in study.summaries if s.contender.name in ("barter", "static")]
    for setting, here in by_setting(compact):
        rows = [
            {
                "active_at_end": _mean(s.active),
                "stored_parameters": _mean(s.stored),
                "step_mean_ms": s.times.mean or Shown("no timed step"),
                "time_over_static": _time_over_static(s, compact),
            }
            for s in here
        ]
        notes = captions.timing_notes(here)
        sections.append(section(study.records, setting, here, columns, rows, notes))
    notes = [
        "Parameters: whole model at the end of training, mean over runs; stored: physically in the "
        "exported model. Step time over static's: above 1, transfers and scores cost time.",
        "The published parameters and times of this comparison are not in the specification.",
        captions.INTERVAL,
        captions.SEQUENTIAL,
    ]
    return Table("experiment_static_costs", "BARTER against Static, size and time", sections, notes)


def _time_over_static(summary: Summary, compact: Sequence[Summary]) -> Estimate | Shown | None:
    static = beside("static", summary, compact)
    if static is None or not summary.contender.valid:
        return None
    if summary is static:
        return Shown("1 (reference)", 1.0)
    return speedup(fast=static, slow=summary)


def _mean(values: Range | None) -> float | None:
    return values.mean if values else None
