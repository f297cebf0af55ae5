"""Accuracy against what it cost, one panel per density: the drawing that such pictures share."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from reports.contenders import Contender, density_text
from reports.plot_style import grid, line_styles
from reports.statistics import Floats

CROWDED = 5
"""Panels with more curves are drawn larger."""
Curve = tuple[Floats, Floats]
"""Cumulative cost and top-1 in percent, each of shape (evaluations,)."""


@dataclass(frozen=True)
class Drawn:
    """A contender's curves, one per run."""

    contender: Contender
    name: str  # one colour, marker and dashes in all panels
    label: str  # in the legend
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Axis:
    """What the curves are drawn against."""

    label: str
    unit: float = 1.0
    """What one on the axis is, in the curves' own unit."""
    at: float | None = None
    """Where a vertical line stands, in the curves' own unit."""


def draw(drawn: Sequence[Drawn], axis: Axis, accuracy: str, held: bool = False) -> Figure:
    """Mean over seeds in bold, every seed thin. Dense in every panel. The title is the caller's.

    Args:
        accuracy: label of the vertical axis.
        held: each value stands until the next one, in place of a line between them.
    """
    densities = sorted({d.contender.density for d in drawn if d.contender.method != "dense"})
    panels: list[float | None] = [*densities] if densities else [None]
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    shown = Counter(d.contender.density for d in drawn)
    scale = 1.25 if max(shown.values()) > CROWDED else 1.0
    size = (scale * max(6.4, 3.6 * columns), 1.5 + scale * 3.0 * rows)
    figure = Figure(figsize=size, layout="constrained")
    grid_of_axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    styles = line_styles([d.name for d in drawn])
    legend: dict[str, Any] = dict.fromkeys(d.label for d in drawn)  # in their order
    for axes, density in zip(grid_of_axes.flat, panels, strict=False):
        for d in drawn:
            if d.contender.method == "dense" or d.contender.density == density:
                legend[d.label] = _lines(axes, d, axis.unit, styles[d.name], held)
        if axis.at is not None:
            axes.axvline(axis.at / axis.unit, color="#7F7F7F", lw=1.2, ls=(0, (5, 3)), zorder=1)
        axes.set_title("" if density is None else f"density {density_text(density)}", loc="left")
        log_axis(axes)
        axes.tick_params(labelbottom=True)
        grid(axes, "both")
    for index, axes in enumerate(grid_of_axes.flat):
        if index >= len(panels):
            axes.remove()
        elif index + columns >= len(panels):  # the lowest of its column
            axes.set_xlabel(axis.label)
    figure.supylabel(accuracy, fontsize=10)
    longest = max(len(label) for label in legend)
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="outside lower center",
        ncols=max(1, min(len(legend), 4, int(size[0] * 13 / (longest + 8)))),
        frameon=False,
        fontsize=9,
    )
    return figure


def seed_counts(drawn: Sequence[Drawn]) -> str:
    """How many seeds a curve stands for."""
    counts = sorted({len(d.contender.seeds) for d in drawn})
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"n = {span} seed{'s' * (counts[-1] != 1)} per curve"


def _lines(axes: Axes, d: Drawn, unit: float, style: dict[str, str], held: bool) -> Any:
    """Every run thin, their mean bold; returns the latter."""
    kind: dict[str, Any] = {**style, "drawstyle": "steps-post" if held else "default"}
    if not d.contender.valid:
        kind["ls"] = (0, (1, 2))
    for x, y in d.curves:
        axes.plot(x / unit, y, lw=0.7, alpha=0.4, **{**kind, "marker": None})
    x, y = mean_curve(d.curves)
    (line,) = axes.plot(x / unit, y, lw=1.8, ms=4, **kind)
    return line


def log_axis(axes: Axes) -> None:
    """Densities spend up to ten times less than dense; plain numbers on the ticks."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1, 2, 5) if high > 10 * low else (1, 2, 3, 5, 7)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Mean over runs at each evaluation that all of them reached."""
    n = min(len(x) for x, _ in curves)
    return (
        np.mean([x[:n] for x, _ in curves], axis=0),
        np.mean([y[:n] for _, y in curves], axis=0),
    )
