"""The experiment `budgets`: BARTER's units at the start, and its transfers, beside the paper's."""

from collections.abc import Sequence
from typing import Any

from reports import published
from reports.experiment_family import Family
from reports.formats import integer
from reports.load import Records, Run
from reports.published import Published
from reports.summary import Summary
from reports.table import Column, Table
from reports.table_parts import DENSITY, METHOD, by_setting, section
from reports.tables_outcome import executed_of

UNITS = ("heads", "channels")
TRANSFERS = ("head_transfers", "channel_transfers")


def tables(family: Family) -> list[Table]:
    columns = [METHOD, DENSITY]
    for unit in UNITS:
        columns += [
            Column(unit, f"{unit} at the start", integer),
            Column(f"published_{unit}", f"published {unit}"),
            Column(f"{unit}_per_layer", f"{unit} per layer"),
        ]
    for unit in TRANSFERS:
        name = unit.replace("_", " ")
        columns += [
            Column(unit, f"{name}, of scheduled"),
            Column(f"published_{unit}", f"published {name}"),
        ]
    columns.append(Column("transfer_multiplier", "times the published number"))
    records = family.here.records
    barters = [s for s in family.here.summaries if s.contender.method == "barter"]
    sections, shown = [], []
    for setting, here in by_setting(barters):
        rows = []
        for summary in here:
            beside = _published(summary)
            shown += beside.values()
            cells = {f"published_{key}": published.cell(value) for key, value in beside.items()}
            rows.append(_row(summary, records) | cells)
        sections.append(section(records, setting, here, columns, rows))
    notes = [
        "Counts, so without an interval: units during the first step of the first seed, and "
        "transfers per run (smallest to largest where runs differ), from the records. Published "
        "transfers are those at 1x, and stand only beside runs at 1x.",
        published.note(shown, published.OTHER_MODEL),
    ]
    return [Table("experiment_budgets", "Budgets and transfers", sections, notes)]


def _row(summary: Summary, records: Records) -> dict[str, Any]:
    run, moved = summary.contender.first_run, summary.transfers
    row: dict[str, Any] = {
        "head_transfers": executed_of(moved.executed_heads, moved.scheduled_heads),
        "channel_transfers": executed_of(moved.executed_channels, moved.scheduled_channels),
        "transfer_multiplier": run.config.get("config.transfer_multiplier"),
    }
    for unit, widths in zip(UNITS, _first_widths(records, run), strict=True):
        row[unit] = sum(widths) if widths else None
        row[f"{unit}_per_layer"] = " ".join(map(str, widths)) or None
    return row


def _first_widths(records: Records, run: Run) -> tuple[Sequence[int], Sequence[int]]:
    """Heads and channels per layer during the first step; empty if not recorded."""
    rows = records.widths(run["run_id"])
    if not rows:
        return (), ()
    return rows[0]["heads_per_layer"] or (), rows[0]["channels_per_layer"] or ()


def _published(summary: Summary) -> dict[str, Published]:
    """Of the workload and density; transfers only where as many were asked for."""
    contender = summary.contender
    budget = published.budget(contender.setting["workload"], contender.density)
    if budget is None:
        return {}
    found = {"heads": budget.heads, "channels": budget.channels}
    if multiplier_of(summary) == 1:
        found |= {
            "head_transfers": budget.head_transfers,
            "channel_transfers": budget.channel_transfers,
        }
    return found


def multiplier_of(summary: Summary) -> float | None:
    """Factor on the published number of transfers."""
    text = summary.contender.first_run.config.get("config.transfer_multiplier")
    return None if text is None else float(text)
