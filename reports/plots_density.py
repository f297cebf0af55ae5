"""Accuracy against density: one line per method, dense as a horizontal band."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from reports import captions
from reports.contenders import Setting, density_text
from reports.plot_style import grid, limits, line_styles, title, upright_whisker
from reports.speedups import dense_reference
from reports.statistics import Estimate
from reports.summary import Summary

LEAST_ROOM = 5.0
"""Points that an interval may always reach beyond the means."""
MARK_ROOM = 2.0
"""Points beyond 0 and 100, so that marks there are whole."""
DODGE = 0.5
"""Width, in steps of the density axis, over which methods' marks are spread."""


def against_density(
    setting: Setting,
    summaries: Sequence[Summary],
    value_of: Callable[[Summary], Estimate | None],
    what: str,
) -> Figure | None:
    """Mean over seeds with its interval; None without any accuracy. Densities are spaced evenly.

    Args:
        what: is drawn, for the axis and the title.
    """
    dense = dense_reference(summaries, setting)
    lines = _lines(summaries, value_of)
    if not lines or setting["synthetic_data"]:
        return None
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    axes = figure.subplots()
    densities = sorted({density for points in lines.values() for density, _ in points})
    place = {density: x for x, density in enumerate(densities)}
    level = _possible(value_of(dense)) if dense else None
    drawn = [e for points in lines.values() for _, e in points] + ([level] if level else [])
    ends = [end for e in drawn for end in (e.low, e.high) if end is not None]
    low, high = limits([e.value for e in drawn], ends, LEAST_ROOM)
    axes.set_ylim(max(low, -MARK_ROOM), min(high, 100 + MARK_ROOM))
    styles = line_styles([*lines, "dense"])
    legend: dict[str, Any] = {}
    if level:
        colour = styles["dense"]["color"]
        if level.low is not None and level.high is not None:
            axes.axhspan(level.low, level.high, color=colour, alpha=0.15, lw=0)
        legend["dense"] = axes.axhline(level.value, color=colour, lw=1.4)
    for index, (name, points) in enumerate(lines.items()):
        shift = DODGE * ((index + 0.5) / len(lines) - 0.5)
        xs = [place[density] + shift for density, _ in points]
        for x, (_, e) in zip(xs, points, strict=True):
            if e.low is not None and e.high is not None:
                upright_whisker(axes, x, e.low, e.high, styles[name]["color"])
        style: dict[str, Any] = dict(styles[name])
        (legend[name],) = axes.plot(xs, [e.value for _, e in points], lw=1.4, ms=6, **style)
    axes.set_xticks(range(len(densities)), [density_text(density) for density in densities])
    axes.set_xlim(-0.6, len(densities) - 0.4)
    axes.set_xlabel("density (marks of methods are spread for legibility)")
    axes.set_ylabel(f"{what[0].lower()}{what[1:]}, test split, %")
    grid(axes, "y")
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="outside lower center",
        ncols=min(len(legend), 4),
        frameon=False,
        fontsize=9,
    )
    runs = [run for s in summaries for run in s.contender.runs]
    title(figure, f"{what} against density", f"{captions.caption(setting, runs)}. {_note(drawn)}")
    return figure


def _lines(
    summaries: Sequence[Summary], value_of: Callable[[Summary], Estimate | None]
) -> dict[str, list[tuple[float, Estimate]]]:
    """Method -> density and accuracy, by density; valid contenders alone."""
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for summary in summaries:
        contender, value = summary.contender, _possible(value_of(summary))
        if contender.method != "dense" and contender.valid and value:
            lines.setdefault(contender.name, []).append((contender.density, value))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}


def _possible(accuracy: Estimate | None) -> Estimate | None:
    """Its interval cut off where no accuracy can be."""
    if accuracy is None or accuracy.low is None or accuracy.high is None:
        return accuracy
    return replace(accuracy, low=max(0.0, accuracy.low), high=min(100.0, accuracy.high))


def _note(drawn: Sequence[Estimate]) -> str:
    counts = sorted({e.runs for e in drawn})
    n = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    seeds = f"n = {n} seed{'s' * (counts[-1] != 1)}"
    if all(e.low is None for e in drawn):
        return f"{seeds}: no interval."
    one = " One seed has none." if counts[0] == 1 else ""
    return f"{seeds}. Whiskers and band: 95 % interval (it goes on beyond an arrow).{one}"
