"""Bars per method and density: step time with intervals, peak memory. Bars start at zero."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports import captions
from reports.contenders import Setting, density_text
from reports.formats import NOTHING, estimate, mib, spread
from reports.load import NO_UPDATE
from reports.plot_style import colours, grid, title, whisker
from reports.speedups import dense_reference
from reports.summary import MIB, Summary


@dataclass(frozen=True)
class Bar:
    """Length, interval (None: none) in the axis's unit, and the text beside the bar."""

    value: float
    low: float | None
    high: float | None
    text: str


def step_time(setting: Setting, summaries: Sequence[Summary]) -> Figure | None:
    """Mean step time, ms; None if nothing was timed."""

    def bar(summary: Summary) -> Bar | None:
        mean = summary.times.mean
        if mean is None:
            return None
        n = f"n = {mean.runs} run{'s' * (mean.runs != 1)}, {mean.steps:,} steps"
        return Bar(mean.value, mean.low, mean.high, f"{estimate(mean)}   {n}")

    note = "Whiskers: 95 % interval (it goes on beyond an arrow)" + (
        ", step-to-step only where n is one run"
        if any(s.times.mean and s.times.mean.runs == 1 for s in summaries)
        else ""
    )
    note = ". ".join([note, *(f"Disturbed: {what}" for what in captions.disturbed(summaries))])
    return _bars(setting, summaries, bar, "Mean step time", "mean step time, ms", note)


def memory(setting: Setting, summaries: Sequence[Summary]) -> Figure | None:
    """Peak allocated memory, MiB, with the dense level; None if none was recorded."""

    def bar(summary: Summary) -> Bar | None:
        peak = summary.peak_allocated
        if peak is None:
            return None
        n = len(summary.contender.runs)
        text = f"{spread(peak, mib)}   n = {n} run{'s' * (n != 1)}"
        return Bar(peak.high / MIB, None, None, text)

    sources = sorted({source for s in summaries for source in s.memory_sources})
    return _bars(
        setting,
        summaries,
        bar,
        "Peak allocated memory",
        "peak allocated memory, MiB",
        f"Largest of the runs; source: {', '.join(sources)}",
        dense_line=True,
    )


def _bars(
    setting: Setting,
    summaries: Sequence[Summary],
    bar_of: Callable[[Summary], Bar | None],
    head: str,
    axis: str,
    note: str,
    dense_line: bool = False,
) -> Figure | None:
    bars = [bar_of(summary) for summary in summaries]
    if not any(bars):
        return None
    labels = [_label(summary) for summary in summaries]
    longest_line = max(len(line) for label in labels for line in label.split("\n"))
    width = 8.0 + 0.08 * max(0, longest_line - 14)  # long names take no room from the bars
    figure = Figure(figsize=(width, 1.75 + 0.36 * len(bars)), layout="constrained")
    axes = figure.subplots()
    colour = colours([s.contender.name for s in summaries])
    most = max(bar.value for bar in bars if bar)
    # An interval that says nothing must not shrink all bars: it leaves the picture.
    longest = max(min(bar.high or bar.value, 1.5 * most) for bar in bars if bar)
    for y, (summary, bar) in enumerate(zip(summaries, bars, strict=True)):
        if bar is None:
            axes.text(0, y, f" {NOTHING} not recorded", va="center", fontsize=9)
            continue
        valid = summary.contender.valid
        fill = colour[summary.contender.name]
        axes.barh(
            y,
            bar.value,
            height=0.68,
            color=fill if valid else "white",
            edgecolor=fill,
            hatch=None if valid else "////",
            alpha=0.85,
        )
        end = _whisker(axes, y, bar, longest)
        text = axes.text(end + 0.012 * longest, y, bar.text, va="center", fontsize=8.5)
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})  # over dense's line
    dense = dense_reference(summaries, setting)
    reference = bar_of(dense) if dense_line and dense else None
    if reference:
        axes.axvline(reference.value, color="black", ls="--", lw=1, zorder=0.5)
    axes.set_yticks(range(len(bars)), labels)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, longest * 1.6)  # room for the text beside the longest bar
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= longest])
    axes.set_xlabel(axis)
    grid(axes, "x")
    _legend(figure, summaries, dense_line=reference is not None)
    runs = [run for summary in summaries for run in summary.contender.runs]
    title(figure, head, f"{captions.caption(setting, runs)}. {note}.")
    return figure


def _whisker(axes: Axes, y: int, bar: Bar, longest: float) -> float:
    """Draw the interval, with an arrow where it leaves the picture; where text may begin."""
    if bar.low is None or bar.high is None:
        return bar.value
    end = min(bar.high, longest)
    cut = (False, end < bar.high)
    # White under black: a whisker is seen on a dark bar as well as beside it.
    whisker(axes, y, bar.low, end, "white", 3.0, 9.0, cut)
    whisker(axes, y, bar.low, end, "black", 1.2, 7.0, cut)
    if end < bar.high:
        return end + 0.02 * longest  # room for the arrow's tip
    return end


def _label(summary: Summary) -> str:
    contender = summary.contender
    name = f"{contender.method} {density_text(contender.density)}"
    return f"{name}\n[{contender.variant}]" if contender.variant else name


def _legend(figure: Figure, summaries: Sequence[Summary], dense_line: bool) -> None:
    """What the bars' labels do not say; none if nothing needs explaining."""
    handles: list[Artist] = []
    if dense_line:
        handles.append(Line2D([], [], color="black", ls="--", lw=1, label="dense"))
    if not all(summary.contender.valid for summary in summaries):
        handles.append(Patch(facecolor="white", edgecolor="#444444", hatch="////", label=NO_UPDATE))
    if handles:
        where = "outside lower right"
        figure.legend(handles=handles, loc=where, ncols=2, frameon=False, fontsize=8.5)
