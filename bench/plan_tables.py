"""A plan for people: what a density buys and what training it costs, in 80 columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.wide_table import print_whole

PlanRow = Mapping[str, Any]

_NAMES: dict[str, Callable[[PlanRow], str]] = {
    "method": lambda row: row["method"],
    "density": lambda row: f"{row['density']:g}",
}
_BOUGHT = _NAMES | {
    "heads": lambda row: f"{row['heads']:,}",
    "channels": lambda row: f"{row['channels']:,}",
    "transfers": lambda row: _transfers(row),
    "parameters": lambda row: f"{row['parameters']:,}",
}
_COST = _NAMES | {
    "forward": lambda row: f"{row['macs_forward_per_image'] / 1e6:.4g}",
    "training": lambda row: f"{row['macs_train_per_image'] / 1e6:.4g}",
    "FLOPs": lambda row: _with_prefix(row["flops_train_total"]),
    "saved": lambda row: f"{row['flops_saving']:.1%}",
    "epochs": lambda row: f"{row['matched_epochs']:.2f}",
}


def show_plan(rows: Sequence[PlanRow], console: Console) -> None:
    """Print the plan; `bench plan --json` has every number exact."""
    for workload, execution in dict.fromkeys((r["workload"], r["execution"]) for r in rows):
        here = [r for r in rows if (r["workload"], r["execution"]) == (workload, execution)]
        name = f"{workload} ({execution})" if execution else workload
        steps = f"{here[0]['total_steps']:,} steps, {here[0]['steps_per_epoch']:,} an epoch"
        _show(f"{name}: {steps}. What a density buys", _BOUGHT, here, console)
        _show(f"{name}: million MACs per image, FLOPs per run", _COST, here, console)
    text = "Exact counts; nothing was run. Transfers: heads + channels. Training: forward and"
    text += " backward. FLOPs: 2 per MAC. Epochs: as many of this model cost what the dense run"
    console.print(f"{text} does. Everything, unrounded: --json.", highlight=False)


def _show(
    title: str,
    columns: Mapping[str, Callable[[PlanRow], str]],
    rows: Sequence[PlanRow],
    console: Console,
) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for name in columns:
        table.add_column(name, no_wrap=True, justify="left" if name == "method" else "right")
    for row in rows:
        table.add_row(*(show(row) for show in columns.values()))
    print_whole(table, console)


def _transfers(row: PlanRow) -> str:
    if row["head_transfers"] is None:
        return ""
    return f"{row['head_transfers']} + {row['channel_transfers']}"


def _with_prefix(value: float) -> str:
    for prefix, factor in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= factor:
            return f"{value / factor:.5g} {prefix}"
    return f"{value:.5g}"
