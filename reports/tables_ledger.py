"""The ledger: what a sparse topology promises beside what its runs cost, every figure marked."""

from collections.abc import Sequence
from typing import Any

from bench.modes import TIME
from bench.schema import MEMORY_PARTS
from reports import captions, captions_time
from reports.formats import estimate, integer, number, with_interval
from reports.ledger import BYTES_PER_NUMBER, NOMINAL_NUMBERS, Account, Book, realised_percent
from reports.load import Records
from reports.marks import LEGEND, Mark, marked
from reports.statistics import Estimate
from reports.summary import MIB, Summary
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, section
from reports.tables_memory import HEADS, fixed, largest_run, parts_of

REFERENCE = "1 (reference)"
SAVINGS = Column("savings_are", "runs are", text=True)


def _column(key: str, title: str, show: Any = number, interval: bool = False) -> Column:
    return Column(key, title, show, interval=interval, marked=True)


def _percent(e: Estimate) -> str:
    """Whole percent: a share of a share is known no better."""
    return with_interval(e, integer)


COLUMNS = (
    METHOD,
    DENSITY,
    SAVINGS,
    _column("ideal_macs_ratio", "ideal MACs / dense"),
    _column("executed_macs_ratio", "executed MACs / dense"),
    _column("step_by_ideal_macs_ms", "step if as ideal MACs, ms"),
    _column("step_by_executed_macs_ms", "step if as executed MACs, ms"),
    _column("step_mean_ms", "step measured, ms [95%]", estimate, interval=True),
    _column("time_ratio", "time / dense [95%]", estimate, interval=True),
    _column("time_realised_percent", "time saved, % of promised [95%]", _percent, interval=True),
    _column("nominal_bytes_ratio", "nominal bytes / dense"),
    _column("peak_bytes_ratio", "peak bytes / dense"),
    _column("bytes_realised_percent", "bytes saved, % of promised", integer),
)
NOTES = (
    LEGEND,
    "Ideal MACs: what the topology would need were nothing inactive computed; executed: of the "
    "operator shapes that ran; both of training, over those that dense executes. Step if as MACs: "
    "dense's mean step times that ratio. Time saved, of promised: the measured saving over the one "
    "in proportion to ideal MACs; 100 is all of it, below 0 the step is slower than dense, and an "
    "interval from below 0 to above it leaves open whether anything was saved.",
    "Nominal bytes: in proportion to active parameters, whole model, as a density is commonly "
    "turned to memory. Peak bytes: allocated, the largest over kinds of step and runs. Bytes "
    "saved, of promised: one saving over the other.",
)
NO_DENSE = "No valid dense run in this setting: no ratio to dense."


def ledger(records: Records, books: Sequence[Book]) -> Table:
    """Compute, time and memory of every contender relative to dense."""
    sections = []
    for setting, accounts in books:
        rows = [_row(account) for account in accounts]
        here = [account.facts for account in accounts]
        notes = captions.timing_notes(here)
        if not any(account.is_dense for account in accounts):
            notes.append(NO_DENSE)
        sections.append(section(records, setting, here, COLUMNS, rows, notes))
    notes = [*NOTES, *interval_notes(records)]
    return Table("ledger", "Ledger: savings promised and real", sections, notes)


def interval_notes(records: Records) -> tuple[str, ...]:
    """How the intervals of step times came about."""
    if records.mode == TIME:
        return (captions_time.INTERVAL,)
    return captions.INTERVAL, captions.SEQUENTIAL


def _row(account: Account) -> dict[str, Any]:
    mark = account.mark
    by_ideal, by_executed = map(account.in_proportion_ms, (account.ideal, account.executed))
    one = marked(Shown(REFERENCE, 1.0), mark)
    row = {
        "savings_are": str(mark) if mark else "not recorded",
        "ideal_macs_ratio": marked(account.ideal, mark),
        "step_mean_ms": marked(account.mean_ms, mark),
    }
    if account.is_dense:
        ratios = ("executed_macs_ratio", "time_ratio", "nominal_bytes_ratio", "peak_bytes_ratio")
        known = (account.executed, account.mean_ms, account.nominal, account.peak)
        return row | {key: one for key, it in zip(ratios, known, strict=True) if it is not None}
    return row | {
        "executed_macs_ratio": marked(account.executed, mark),
        "step_by_ideal_macs_ms": marked(by_ideal, Mark.PREDICTED),
        "step_by_executed_macs_ms": marked(by_executed, Mark.PREDICTED),
        "time_ratio": marked(account.time, mark),
        "time_realised_percent": marked(realised_percent(account.ideal, account.time), mark),
        "nominal_bytes_ratio": marked(account.nominal, mark),
        "peak_bytes_ratio": marked(account.peak, mark),
        "bytes_realised_percent": marked(realised_percent(account.nominal, account.peak), mark),
    }


BYTES_NOTES = (
    LEGEND,
    "Nominal: active parameters (mean over runs, at the end) times "
    f"{BYTES_PER_NUMBER} bytes for parameters, as many for gradients, and twice as many for Adam's "
    "two moments. Nothing nominal is claimed of the other causes. Measured: as in the table of "
    "memory by cause, at the highest moment of the step with the largest peak. Most gradients do "
    "not exist yet at a peak that falls into the forward pass or the beginning of the backward "
    "pass: less than nominal is then no saving. Parameters: buffers among them.",
)


def ledger_bytes(records: Records, books: Sequence[Book]) -> Table:
    """Nominal against measured bytes by cause; nothing for records older than the parts."""
    columns = [METHOD, DENSITY]
    for part in MEMORY_PARTS:
        if part in NOMINAL_NUMBERS:
            columns.append(_column(f"{part}_nominal_mib", f"{HEADS[part]}: nominal, MiB", fixed))
        measured = f"{HEADS[part]}: measured, MiB" if part in NOMINAL_NUMBERS else HEADS[part]
        unit = "" if part in NOMINAL_NUMBERS else ", MiB"
        columns.append(_column(f"{part}_mib", f"{measured}{unit}", fixed))
    columns.append(_column("sum_mib", "sum measured, MiB", fixed))
    sections = []
    for setting, accounts in books:
        here: list[Summary] = []
        rows = []
        for account in accounts:
            run = largest_run(account.facts)
            if run is not None:
                here.append(account.facts)
                rows.append(_bytes_row(account, parts_of(run)))
        if rows:
            sections.append(section(records, setting, here, columns, rows))
    return Table("ledger_bytes", "Ledger: bytes nominal and measured", sections, BYTES_NOTES)


def _bytes_row(account: Account, parts: dict[str, int]) -> dict[str, Any]:
    mark = account.mark
    sizes = {f"{part}_mib": size for part, size in parts.items()} | {"sum_mib": sum(parts.values())}
    sizes |= {
        f"{part}_nominal_mib": nominal
        for part in parts
        if (nominal := account.nominal_bytes(part)) is not None
    }
    return {key: marked(size / MIB, mark) for key, size in sizes.items()}
