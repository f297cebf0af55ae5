"""Validation accuracy against cumulative training FLOPs, one panel per density."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reports import captions
from reports.contenders import Setting, density_text
from reports.load import Records, Run
from reports.plot_style import grid, line_styles, title
from reports.statistics import Floats
from reports.summary import Summary

SCALES = ((1e18, "EFLOPs"), (1e15, "PFLOPs"), (1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs"))
CROWDED = 5
"""Panels with more curves are drawn larger."""
Curve = tuple[Floats, Floats]
"""Cumulative training FLOPs and top-1 in percent, each of shape (evaluations,)."""


def accuracy(
    setting: Setting, summaries: Sequence[Summary], records: Records, split: str = "validation"
) -> Figure | None:
    """Mean over seeds in bold, every seed thin; None without evaluations. Dense in every panel."""
    curves = {id(s): list(curves_of(s.contender.runs, records, split).values()) for s in summaries}
    drawn = [s for s in summaries if curves[id(s)]]
    if not drawn or setting["synthetic_data"]:
        return None
    densities = sorted({s.contender.density for s in drawn if s.contender.method != "dense"})
    panels: list[float | None] = [*densities] if densities else [None]
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    shown = Counter(s.contender.density for s in drawn)
    scale = 1.25 if max(shown.values()) > CROWDED else 1.0
    size = (scale * max(6.4, 3.6 * columns), 1.5 + scale * 3.0 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid_of_axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    styles = line_styles([s.contender.name for s in drawn])
    farthest = max(float(x[-1]) for s in drawn for x, _ in curves[id(s)])
    unit, unit_name = flop_scale(farthest)
    legend: dict[str, Any] = dict.fromkeys(s.contender.label for s in drawn)  # in their order
    for axes, density in zip(grid_of_axes.flat, panels, strict=False):
        for s in drawn:
            contender = s.contender
            if contender.method != "dense" and contender.density != density:
                continue
            style: dict[str, Any] = dict(styles[contender.name])
            if not contender.valid:
                style["ls"] = (0, (1, 2))
            for x, y in curves[id(s)]:
                axes.plot(x / unit, y, lw=0.7, alpha=0.4, **{**style, "marker": None})
            x, y = mean_curve(curves[id(s)])
            (line,) = axes.plot(x / unit, y, lw=1.8, ms=4, **style)
            legend[s.contender.label] = line
        axes.set_title("" if density is None else f"density {density_text(density)}", loc="left")
        log_axis(axes)
        axes.tick_params(labelbottom=True)
        grid(axes, "both")
    for index, axes in enumerate(grid_of_axes.flat):
        if index >= len(panels):
            axes.remove()
        elif index + columns >= len(panels):  # the lowest of its column
            axes.set_xlabel(f"cumulative training compute, {unit_name}")
    figure.supylabel(f"top-1 accuracy, {split} split, %", fontsize=10)
    longest = max(len(label) for label in legend)
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(legend), 4, int(size[0] * 13 / (longest + 8)))),
        frameon=False,
        fontsize=9,
    )
    runs = [run for s in drawn for run in s.contender.runs]
    note = f"FLOPs = 2 MACs. Bold: mean over seeds; thin: each seed ({_seed_counts(drawn)})"
    title(figure, "Accuracy against compute", f"{captions.caption(setting, runs)}. {note}.")
    return figure


def log_axis(axes: Axes) -> None:
    """Densities spend up to ten times less than dense; plain numbers on the ticks."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 5) if high > 10 * low else (1, 2, 3, 5, 7)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def flop_scale(farthest: float) -> tuple[float, str]:
    """The unit in which an axis that ends there is read best, and its name."""
    return next((scale for scale in SCALES if farthest >= scale[0]), SCALES[-1])


def curves_of(runs: Sequence[Run], records: Records, split: str) -> dict[str, Curve]:
    """The curve of each run that has one, by run id."""
    ids = {run["run_id"] for run in runs}
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in records.evals:
        compute, top1 = row["cumulative_training_macs"], row["top1_percent"]
        if row["run_id"] in ids and row["split"] == split and compute and top1 is not None:
            points[row["run_id"]].append((2 * compute, top1))
    arrays = {run_id: np.array(points[run_id]) for run_id in sorted(points)}
    return {run_id: (array[:, 0], array[:, 1]) for run_id, array in arrays.items()}


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Mean over runs at each evaluation that all of them reached."""
    n = min(len(x) for x, _ in curves)
    return (
        np.mean([x[:n] for x, _ in curves], axis=0),
        np.mean([y[:n] for _, y in curves], axis=0),
    )


def _seed_counts(drawn: Sequence[Summary]) -> str:
    counts = sorted({len(s.contender.seeds) for s in drawn})
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"n = {span} seed{'s' * (counts[-1] != 1)} per curve"
