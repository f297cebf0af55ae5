"""The experiment `transfers`: what more transfers buy and cost."""

from collections.abc import Iterable
from typing import Any

from reports import captions, published
from reports.contenders import density_text
from reports.experiment_accuracy import (
    MACRO_F1,
    SEEDS,
    TEST_NOTE,
    TOP1,
    accuracy_cells,
    accuracy_notes,
)
from reports.experiment_budgets import multiplier_of
from reports.experiment_family import Family, Study
from reports.formats import estimate
from reports.paired import scaled
from reports.picture import Picture
from reports.statistics import Estimate
from reports.summary import Summary
from reports.table import Column, Table
from reports.table_parts import DENSITY, METHOD, by_setting, section
from reports.tables_outcome import executed_of

COLUMNS = (
    METHOD,
    DENSITY,
    Column("transfer_multiplier", "times the published number", lambda m: f"{m:g}"),
    Column("head_transfers", "head transfers, of scheduled"),
    Column("channel_transfers", "channel transfers, of scheduled"),
    SEEDS,
    TOP1,
    Column("published_top1_percent", "published top-1, %"),
    MACRO_F1,
    Column("published_macro_f1_percent", "published macro-F1, %"),
    Column("update_ms_per_step", "update cost, ms per step [95%]", estimate, interval=True),
    Column("published_update_ms_per_step", "published, ms per step"),
    Column("update_s_per_run", "update cost, s per run [95%]", estimate, interval=True),
    Column("published_update_s_per_run", "published, s per run"),
)
_PUBLISHED = {
    "published_top1_percent": published.TRANSFERS_TOP1,
    "published_macro_f1_percent": published.TRANSFERS_F1,
    "published_update_ms_per_step": published.UPDATE_MS_PER_STEP,
    "published_update_s_per_run": published.UPDATE_S_PER_RUN,
}


def tables(family: Family) -> list[Table]:
    study = family.here
    sections, shown = [], []
    for setting, here in by_setting(_by_multiplier(study)):
        beside = _PUBLISHED if setting["workload"] == published.TRANSFERS_WORKLOAD else {}
        shown += beside.values()
        cells = {key: published.cell(value) for key, value in beside.items()}
        rows = [_row(summary) | cells for summary in here]
        used = ", ".join(sorted({density_text(s.contender.density) for s in here}))
        notes = [
            f"Density here: {used}. The published one is not known.",
            *accuracy_notes(setting, here),
            *captions.timing_notes(here),
        ]
        sections.append(section(study.records, setting, here, COLUMNS, rows, notes))
    notes = [
        f"{TEST_NOTE} Update cost: update steps minus as many steps of the same collection "
        "setting, divided by all steps; per run, times the run's steps. Published update costs "
        "are of windows, and published figures are ranges over all multipliers.",
        published.note(shown, published.OTHER_MODEL),
        captions.INTERVAL,
    ]
    return [Table("experiment_transfers", "More transfers", sections, notes)]


def _by_multiplier(study: Study) -> list[Summary]:
    """BARTER's contenders of each setting and density, fewest transfers first."""
    barters = [s for s in study.summaries if s.contender.method == "barter"]
    return sorted(barters, key=lambda s: (s.contender.density, multiplier_of(s) or 0.0))


def _row(summary: Summary) -> dict[str, Any]:
    moved, cost = summary.transfers, summary.times.update_cost
    return {
        "transfer_multiplier": multiplier_of(summary),
        "head_transfers": executed_of(moved.executed_heads, moved.scheduled_heads),
        "channel_transfers": executed_of(moved.executed_channels, moved.scheduled_channels),
        **accuracy_cells(summary),
        "update_ms_per_step": cost,
        "update_s_per_run": _per_run(summary, cost),
    }


def _per_run(summary: Summary, per_step_ms: Estimate | None) -> Estimate | None:
    steps = summary.contender.setting["total_steps"]
    return scaled(per_step_ms, steps / 1000) if per_step_ms and steps else None


def pictures(family: Family) -> Iterable[Picture]:
    from reports.plots_multiplier import against_multiplier

    settings = by_setting(_by_multiplier(family.here))
    for index, (setting, here) in enumerate(settings, 1):
        tail = f"-{setting.slug}-{index}" if len(settings) > 1 else ""
        where = f" ({setting['workload']})" if len(settings) > 1 else ""
        what = f"Accuracy and update cost against the number of transfers{where}"
        none = "neither accuracy nor update cost was recorded"
        yield f"experiment_transfers{tail}", what, against_multiplier(setting, here), none
