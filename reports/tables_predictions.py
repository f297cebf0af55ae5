"""What steps were predicted to cost, beside what they cost, with the error of the prediction."""

from collections.abc import Sequence
from typing import Any

from reports.formats import estimate, mib, number
from reports.ledger import Account, Book
from reports.load import Records
from reports.marks import LEGEND, Mark, marked
from reports.predicted import Whole, of_contender, wholes
from reports.predictions import Prediction
from reports.segment_counts import kind_of
from reports.statistics import Estimate
from reports.step_counts import over_runs
from reports.summary import MIB, Summary
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, section
from reports.tables_ledger import interval_notes

COLUMNS = (
    METHOD,
    DENSITY,
    Column("kind", "kind of step", text=True),
    Column("predicted_for", "predicted for", text=True),
    Column("predicted_peak_mib", "peak predicted, MiB", marked=True),
    Column("peak_allocated_mib", "peak measured, MiB", marked=True),
    Column("peak_error_percent", "peak error, %", lambda x: f"{x:+.2f}"),
    Column("predicted_step_ms", "step predicted, ms", number, marked=True),
    Column("step_mean_ms", "step measured, ms [95%]", estimate, interval=True, marked=True),
    Column("step_error_percent", "step error, %", lambda x: f"{x:+.2f}"),
)
NOTES = (
    LEGEND,
    "Error: predicted minus measured, in percent of measured. Measured: the largest peak of the "
    "kind over its steps and runs, and its mean time. A step that is of several kinds is among the "
    "measured ones of the last that its name holds (update is the last of all). All kinds: the "
    "largest peak, and the mean with each kind as often as the runs had it; where one of their "
    "kinds was not predicted, nothing.",
)
ALL_KINDS = "all kinds"


def ledger_predictions(records: Records, books: Sequence[Book]) -> Table:
    """A row for every prediction of a contender, after one for its whole run if that has several
    kinds of step; nothing without predictions."""
    sections = []
    for setting, accounts in books:
        owners: list[Summary] = []
        rows: list[dict[str, Any]] = []
        for account in accounts:
            contender = account.facts.contender
            own = [
                _whole_row(account, whole)
                for whole in wholes(records.predictions, contender)
                if whole.kinds > 1
            ]
            own += [_row(account, p) for p in of_contender(records.predictions, contender)]
            rows += own
            owners += [account.facts] * len(own)
        if rows:
            sections.append(section(records, setting, owners, COLUMNS, rows))
    notes = [*NOTES, *interval_notes(records)]
    return Table("ledger_predictions", "Ledger: predicted beside measured", sections, notes)


def error_percent(predicted: float | None, measured: float | None) -> float | None:
    """Predicted minus measured, in percent of measured; None unless both are known."""
    return None if predicted is None or not measured else 100 * (predicted / measured - 1)


def _whole_row(account: Account, whole: Whole) -> dict[str, Any]:
    peak = account.facts.peak_allocated
    return {
        "kind": ALL_KINDS,
        "predicted_for": whole.device,
        **_peaks(account, whole.peak_allocated_bytes, peak.high if peak else None),
        **_steps(account, whole.step_ms, account.mean_ms),
    }


def _row(account: Account, prediction: Prediction) -> dict[str, Any]:
    kind = kind_of(prediction.flags)
    peaks = over_runs(run.steps.peaks for run in account.facts.contender.runs).get(kind)
    return {
        "kind": prediction.kind.replace("_", " "),
        "predicted_for": prediction.device,
        **_peaks(account, prediction.peak_allocated_bytes, peaks.high if peaks else None),
        **_steps(account, prediction.step_ms, account.kinds_ms.get(kind)),
    }


def _peaks(account: Account, predicted: float | None, measured: float | None) -> dict[str, Any]:
    return {
        "predicted_peak_mib": marked(_mib(predicted), Mark.PREDICTED),
        "peak_allocated_mib": marked(_mib(measured), account.mark),
        "peak_error_percent": error_percent(predicted, measured),
    }


def _steps(account: Account, predicted: float | None, measured: Estimate | None) -> dict[str, Any]:
    return {
        "predicted_step_ms": marked(predicted, Mark.PREDICTED),
        "step_mean_ms": marked(measured, account.mark),
        "step_error_percent": error_percent(predicted, measured.value if measured else None),
    }


def _mib(size: float | None) -> Shown | None:
    return None if size is None else Shown(mib(size), size / MIB)
