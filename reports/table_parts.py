"""What all tables share: the naming columns and the section of one setting."""

from collections.abc import Sequence
from typing import Any

from reports import captions
from reports.contenders import Setting, density_text
from reports.formats import integer
from reports.load import Records
from reports.summary import Range, Summary
from reports.table import Column, Section, Shown

METHOD = Column("method", "method", text=True)
DENSITY = Column("density", "density", density_text)
ACTIVE = Column("active_parameters", "active (of budget)")
RUNS = Column("runs", "runs", integer)


def by_setting(summaries: Sequence[Summary]) -> list[tuple[Setting, list[Summary]]]:
    """Summaries of each setting, in order."""
    settings = dict.fromkeys(summary.contender.setting for summary in summaries)
    return [(s, [x for x in summaries if x.contender.setting == s]) for s in settings]


def active(parameters: Range | None, ratio: float | None) -> Shown | None:
    """Active parameters at the end (mean over runs) and the furthest ratio to the budget."""
    if parameters is None:
        return None
    mean = parameters.mean
    text = integer(mean)
    return Shown(f"{text} ({ratio:.3f})" if ratio is not None else text, mean)


def section(
    records: Records,
    setting: Setting,
    here: Sequence[Summary],
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[str] = (),
) -> Section:
    """A section with one row per summary. Name, density, n, and realised active parameters with
    their ratio to the budget are added to each row."""
    runs = [run for summary in here for run in summary.contender.runs]
    return Section(
        captions.caption(setting, runs),
        with_active(columns),
        [named(summary, row) for summary, row in zip(here, rows, strict=True)],
        [*notes, *captions.left_out(records, setting)],
        captions.setting_columns(setting),
        heads=2,
    )


def with_active(columns: Sequence[Column]) -> list[Column]:
    """The columns, with active parameters after the density."""
    return [
        part
        for column in columns
        for part in ((column, ACTIVE) if column is DENSITY else (column,))
    ]


def named(summary: Summary, row: dict[str, Any]) -> dict[str, Any]:
    """A row with what names its contender."""
    contender = summary.contender
    return {
        "method": contender.label,
        "density": contender.density,
        "active_parameters": active(summary.active, summary.budget_ratio),
        "runs": len(contender.runs),
        **row,
    }
