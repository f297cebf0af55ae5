"""Validation accuracy against the compute of fine-tuning: a run and its continuation are a line."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reports import captions
from reports.contenders import Setting, density_text
from reports.courses import Course, flops, stage_study
from reports.experiment_family import Family
from reports.formats import FLOPS, fitting
from reports.plot_style import grid, line_styles, title
from reports.plots_accuracy import curves_of
from reports.plots_curves import Curve, log_axis, mean_curve
from reports.published import EQUAL, MATCHED
from reports.summary import Summary

Parts = tuple[list[Curve], list[Curve]]
"""Curves of fine-tuning runs and of their continuations, the latter from where those ended."""


def accuracy_against_compute(
    setting: Setting, here: Sequence[Course], family: Family
) -> Figure | None:
    """One panel per density, dense in each; None without evaluations."""
    parts = {id(course): _parts(course, family) for course in here}
    drawn = [c for c in here if any(parts[id(c)])]
    if not drawn or setting["synthetic_data"]:
        return None
    densities = sorted({c.density for c in drawn if c.name != "dense"})
    panels: list[float | None] = [*densities] if densities else [None]
    columns = 2 if len(panels) in (2, 4) else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(max(7.2, 4.6 * columns), 1.9 + 3.7 * rows), layout="constrained")
    grid_of_axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    unit, unit_name = fitting(max(_farthest(parts[id(c)]) for c in drawn), FLOPS)
    spent_by_dense = next((flops(c.first) for c in drawn if c.name == "dense"), None)
    styles = line_styles([c.name for c in drawn])
    legend: dict[str, Any] = {}
    for axes, density in zip(grid_of_axes.flat, panels, strict=False):
        for course in drawn:
            if course.name == "dense" or course.density == density:
                line = _draw(axes, parts[id(course)], unit, styles[course.name])
                legend.setdefault(course.first.contender.label, line)
        if spent_by_dense:
            axes.axvline(spent_by_dense / unit, color="black", ls="--", lw=1, zorder=0.5)
        axes.set_title("" if density is None else f"density {density_text(density)}", loc="left")
        log_axis(axes)
        axes.tick_params(labelbottom=True)
        grid(axes, "both")
    for index, axes in enumerate(grid_of_axes.flat):
        if index >= len(panels):
            axes.remove()
        elif index + columns >= len(panels):  # the lowest of its column
            axes.set_xlabel(f"cumulative training compute, {unit_name}")
    figure.supylabel("top-1 accuracy, validation split, %", fontsize=10)
    _legend(figure, legend, spent_by_dense is not None, any(parts[id(c)][1] for c in drawn))
    runs = [run for course in drawn for run in course.first.contender.runs]
    title(
        figure,
        "Accuracy against the compute of fine-tuning",
        f"{captions.caption(setting, runs)}. FLOPs = 2 MACs, from the start of fine-tuning. "
        f"Mean over seeds ({_seeds(drawn)}); no interval is drawn.",
    )
    return figure


def _parts(course: Course, family: Family) -> Parts:
    first = _curves(course.equal, family, EQUAL)
    second = _curves(course.matched, family, MATCHED)
    starts = {
        run["run_id"]: run["start_run_id"]
        for run in (course.matched.contender.runs if course.matched else ())
    }
    joined = [_after(first.get(starts[run_id]), curve) for run_id, curve in second.items()]
    return list(first.values()), joined


def _curves(summary: Summary | None, family: Family, phase: str) -> dict[str, Curve]:
    study = stage_study(family, phase)
    if summary is None or study is None:
        return {}
    return curves_of(summary.contender.runs, study.records, "validation")


def _after(first: Curve | None, second: Curve) -> Curve:
    """The second curve, beginning where the first one ended."""
    if first is None:
        return second
    x, y = (
        np.concatenate([before[-1:], after]) for before, after in zip(first, second, strict=True)
    )
    return x, y


def _farthest(parts: Parts) -> float:
    return max(float(x[-1]) for curves in parts for x, _ in curves)


def _draw(axes: Axes, parts: Parts, unit: float, style: dict[str, str]) -> Line2D:
    """Both parts in one style, with a mark where the first one ended."""
    lines = []
    for curves in parts:
        if curves:
            x, y = mean_curve(curves)
            (line,) = axes.plot(x / unit, y, lw=1.7, ms=4, **style)  # pyright: ignore[reportArgumentType]
            lines.append(line)
    if all(parts):
        x, y = mean_curve(parts[0])
        colour = style["color"]
        axes.plot(x[-1] / unit, y[-1], marker="o", ms=10, mfc="none", mec=colour, mew=1.6, zorder=5)
    return lines[0]


def _legend(figure: Figure, lines: dict[str, Any], budget: bool, ended: bool) -> None:
    handles = dict(lines)
    if ended:
        ring: dict[str, Any] = {"marker": "o", "ms": 9, "mfc": "none", "mec": "#444444"}
        handles["end of equal epochs"] = Line2D([], [], ls="", **ring)
    if budget:
        handles["dense run's compute"] = Line2D([], [], color="black", ls="--", lw=1)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(len(handles), 4),
        frameon=False,
        fontsize=9,
    )


def _seeds(drawn: Sequence[Course]) -> str:
    counts = sorted({len(s.contender.seeds) for c in drawn for _, s in c.phases})
    n = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return f"n = {n} seed{'s' * (counts[-1] != 1)} per line"
