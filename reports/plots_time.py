"""Step time relative to dense, with intervals and the band that noise alone would fill."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports import captions
from reports.contenders import Contender, density_text
from reports.formats import estimate, number
from reports.plot_style import colours, grid, title, whisker
from reports.side_by_side import Comparison
from reports.statistics import Estimate

WIDEST = 3.0
"""An interval that reaches further, in multiples of the largest ratio, leaves the picture."""
Row = tuple[str, str, Estimate, str]
"""Label, name (which has a colour), ratio, verdict."""


def ratio_to_dense(comparison: Comparison) -> Figure | None:
    """None without a contender that has a ratio to dense."""
    rows = _rows(comparison)
    if not any(verdict for *_, verdict in rows):
        return None  # nothing, or A/A alone
    figure = Figure(figsize=(8.0, 2.05 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    colour = colours([name for _, name, _, _ in rows])
    floor = comparison.floor
    noise = 1 + floor.fraction if floor else 1.0
    low, high = _span(rows, noise)
    if floor:
        axes.axvspan(1 / noise, noise, color="#D9D9D9", lw=0, zorder=0)
    axes.axvline(1, color="black", ls="--", lw=1, zorder=0.5)
    for y, (_, name, ratio, verdict) in enumerate(rows):
        _point(axes, y, ratio, colour[name], (low, high))
        axes.annotate(
            f"{estimate(ratio)}   {verdict}".rstrip(),
            (1.01, y),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8.5,
            annotation_clip=False,
        )
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    margin = 0.04 * (high - low) or 0.05
    axes.set_xlim(low - margin, high + margin)
    axes.set_xlabel("schedule-weighted mean step time, relative to dense (below 1: faster)")
    grid(axes, "x")
    handles: list[Line2D | Patch] = [Line2D([], [], color="black", ls="--", lw=1, label="dense")]
    if floor:
        label = f"noise floor, ±{number(100 * floor.fraction, 2)} %"
        handles.append(Patch(facecolor="#D9D9D9", label=label))
    figure.legend(handles=handles, loc="outside lower right", ncols=2, frameon=False, fontsize=8.5)
    runs = [run for contender in comparison.contenders for run in contender.runs]
    launches = sorted({ratio.runs for _, _, ratio, _ in rows})
    n = " to ".join(str(n) for n in dict.fromkeys((launches[0], launches[-1])))
    details = (
        f"n = {n} launch{'es' * (n != '1')}. Whiskers: 95 % interval (it goes on beyond an arrow)"
    )
    head = "Step time relative to dense, side by side"
    title(figure, head, f"{captions.caption(comparison.setting, runs)}. {details}.")
    return figure


def _rows(comparison: Comparison) -> list[Row]:
    dense = comparison.dense
    rows: list[Row] = []
    if dense and comparison.again:
        label = f"{dense.facts.contender.label_with_density}, again (A/A)"
        rows.append((label, "dense", comparison.again, ""))
    for contender in comparison.contenders if dense else ():
        pair = comparison.pair(contender, dense) if dense else None
        if pair:
            named = contender.facts.contender
            verdict = str(pair.judged.verdict)
            rows.append((_label(named), named.name, pair.judged.ratio, verdict))
    return rows


def _label(contender: Contender) -> str:
    name = f"{contender.method} {density_text(contender.density)}"
    return f"{name}\n[{contender.variant}]" if contender.variant else name


def _span(rows: list[Row], noise: float) -> tuple[float, float]:
    """From the least to the greatest end of an interval, with the whole band of noise; a useless
    interval is cut."""
    ratios = [ratio for _, _, ratio, _ in rows]
    most, least = max(r.value for r in ratios), min(r.value for r in ratios)
    high = max(min(r.high or r.value, WIDEST * most) for r in ratios)
    low = min(max(r.low or r.value, least / WIDEST) for r in ratios)
    return min(low, 1 / noise), max(high, noise)


def _point(axes: Axes, y: int, ratio: Estimate, colour: str, span: tuple[float, float]) -> None:
    if ratio.low is not None and ratio.high is not None:
        low, high = max(ratio.low, span[0]), min(ratio.high, span[1])
        whisker(axes, y, low, high, colour, cut=(low != ratio.low, high != ratio.high))
    axes.plot(ratio.value, y, color=colour, marker="o", ms=6, mec="white", zorder=4)
