"""A prediction for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.predict.rows import PARTS, PEAK
from bench.predict.target import Target
from bench.wide_table import print_whole
from bench.wording import say

PredictedRow = Mapping[str, Any]
_Columns = Mapping[str, Callable[[PredictedRow], str]]

_TITLES = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer_state": "optimizer",
    "method_state": "masks, scores",
    "batch": "batch",
    "activations": "activations",
    "rest": "rest",
}


def _mib(column: str) -> Callable[[PredictedRow], str]:
    return lambda row: f"{row[column] / 2**20:,.2f}"


def _number(column: str, unit: float, digits: int = 4) -> Callable[[PredictedRow], str]:
    return lambda row: "" if row[column] is None else f"{row[column] / unit:.{digits}g}"


_NAMES: _Columns = {
    "method": lambda row: row["method"],
    "density": lambda row: f"{row['density']:g}",
    "kind of step": lambda row: row["kind"],
}
_MEMORY: _Columns = {
    **_NAMES,
    "attention": lambda row: row["attention_kernel"],
    "peak": _mib(PEAK),
    **{_TITLES[part]: _mib(column) for part, column in PARTS.items()},
}
_COMPUTE: _Columns = {
    **_NAMES,
    "attention": lambda row: row["attention_kernel"],
    "executed": _number("executed_macs", 1e9),
    "ideal": _number("ideal_macs", 1e9),
    "GB moved": _number("predicted_moved_bytes", 1e9),
    "step, ms": _number("predicted_step_ms", 1, 3),
}


def show_prediction(rows: Sequence[PredictedRow], target: Target, console: Console) -> None:
    """Print predicted rows; `bench plan --predict --json` has every number exact."""
    known = [row for row in rows if row["reason"] is None]
    for workload, execution in dict.fromkeys((r["workload"], r["execution"]) for r in known):
        here = [r for r in known if (r["workload"], r["execution"]) == (workload, execution)]
        name = f"{workload}, batch {here[0]['batch_size']}, {target.name}"
        name += ", TF32" if target.kind == "cuda" and here[0]["tf32"] else ""
        name += f" ({execution})" if execution else ""
        _show(f"{name}: predicted peak of allocated memory, MiB", _MEMORY, here, console)
        _show(f"{name}: billion MACs, traffic and predicted step", _COMPUTE, here, console)
    for row in rows:
        if row["reason"] is not None:
            step = row["kind"] or "no step"
            what = f"{row['workload']}, {row['method']} at {row['density']:g}, {step}"
            say(console, f"Not predicted: {what}: {row['reason']}.")
    for note in (_NOTES, _time_note(target)):
        console.print(note, highlight=False, markup=False)


_NOTES = (
    "Predicted; no step was computed. Whole training steps at the initial widths. Workspace is not"
    " included: what a kernel allocates within a call (on CUDA, cuBLAS keeps 8 to 32 MiB)."
    " Everything, unrounded: --json."
)


def _time_note(target: Target) -> str:
    if target.card is None:
        return "No step time: a CPU has no peaks here, unless [cards.cpu] says them (see --cards)."
    return (
        "Predicted step: a roofline, per operator the larger of arithmetic and traffic at peaks"
        " that kernels do not reach; launches are not in it."
        f" Peaks of {target.name}: {target.card.source}."
    )


def _show(title: str, columns: _Columns, rows: Sequence[PredictedRow], console: Console) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    texts = ("method", "kind of step", "attention")
    for name in columns:
        table.add_column(name, no_wrap=True, justify="left" if name in texts else "right")
    for row in rows:
        table.add_row(*(show(row) for show in columns.values()))
    print_whole(table, console)
