"""Savings promised and real: of compute, time, memory an empty bar, filled as far as it is true."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports import captions
from reports.contenders import Contender, density_text
from reports.ledger import Account, Book
from reports.load import NO_UPDATE
from reports.marks import Mark
from reports.plot_style import PALETTE, grid, title, whisker
from reports.predicted import wholes
from reports.predictions import Prediction
from reports.statistics import Estimate

FILL = {Mark.COMPACT: PALETTE[1], Mark.MASKS: PALETTE[2], None: PALETTE[0]}
HEADS = ("compute (MACs)", "step time", "memory (peak bytes)")
LEFT_MOST = -40.0
"""Percent: a step that is slower than this allows is drawn to here, with an arrow."""
TEXT_AT = 103.0


@dataclass(frozen=True)
class Saving:
    """Percent of dense that is saved; None: unknown."""

    promised: float | None
    real: float | None
    interval: tuple[float, float] | None = None
    predicted: float | None = None


def ledger(book: Book, predictions: Sequence[Prediction]) -> Figure | None:
    """None without a contender that has a ratio to dense."""
    setting, accounts = book
    shown = [account for account in accounts if not account.is_dense]
    savings = [_savings(account, predictions) for account in shown]
    if not any(saving.real is not None for three in savings for saving in three):
        return None
    labels = [_label(account.facts.contender) for account in shown]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    width = 9.0 + 0.08 * max(0, longest - 14)
    figure = Figure(figsize=(width, 2.3 + 0.36 * len(shown)), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, head, column in zip(panels, HEADS, zip(*savings, strict=True), strict=True):
        left = _left(column)
        axes.set_title(head, loc="left")
        axes.axvline(0, color="black", lw=1, zorder=3)
        for y, (account, saving) in enumerate(zip(shown, column, strict=True)):
            _draw(axes, y, saving, account, left)
        axes.set_xlim(left, 100)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_xlabel("saved, % of dense")
        grid(axes, "x")
    panels[0].set_yticks(range(len(shown)), labels)
    panels[0].set_ylim(len(shown) - 0.4, -0.6)
    figure.legend(
        handles=_legend(shown, savings),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=8.5,
    )
    runs = [run for account in accounts for run in account.facts.contender.runs]
    note = (
        "Promised: ideal MACs, time in proportion to them, bytes in proportion to active "
        "parameters. Beside each bar: real of promised. Whiskers: 95 % interval (it goes on beyond "
        "an arrow)"
    )
    title(figure, "Savings promised and real", f"{captions.caption(setting, runs)}. {note}.")
    return figure


def _savings(account: Account, predictions: Sequence[Prediction]) -> tuple[Saving, ...]:
    step, peak = _predicted(account, predictions)
    time = account.time
    promised = _saved(account.ideal)
    return (
        Saving(promised, _saved(account.executed)),
        Saving(promised, _saved(time.value if time else None), _ends(time), _saved(step)),
        Saving(_saved(account.nominal), _saved(account.peak), None, _saved(peak)),
    )


def _predicted(
    account: Account, predictions: Sequence[Prediction]
) -> tuple[float | None, float | None]:
    """Step time and peak over those of dense, for the first device that both were predicted for."""
    if account.dense is None:
        return None, None
    dense = {
        (whole.device, whole.execution): whole
        for whole in wholes(predictions, account.dense.contender)
    }
    for mine in wholes(predictions, account.facts.contender):
        theirs = dense.get((mine.device, mine.execution))
        if theirs:
            return (
                _ratio(mine.step_ms, theirs.step_ms),
                _ratio(mine.peak_allocated_bytes, theirs.peak_allocated_bytes),
            )
    return None, None


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    return None if mine is None or not theirs else mine / theirs


def _saved(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * (1 - ratio)


def _left(savings: Sequence[Saving]) -> float:
    """Where a panel begins: it shows what costs more than dense, within limits."""
    least = min((s.real for s in savings if s.real is not None), default=0.0)
    return max(LEFT_MOST, min(0.0, least)) - 3


def _ends(ratio: Estimate | None) -> tuple[float, float] | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return 100 * (1 - ratio.high), 100 * (1 - ratio.low)


def _draw(axes: Axes, y: int, saving: Saving, account: Account, left: float) -> None:
    fill = FILL[account.mark]
    if saving.promised is not None:
        axes.barh(y, saving.promised, height=0.68, color="white", edgecolor=fill, ls="--", lw=1)
    if saving.real is not None:
        real = max(saving.real, left)
        axes.barh(y, real, height=0.68, color=fill, edgecolor=fill, alpha=0.85)
        if real > saving.real:
            axes.plot(left, y, color=fill, marker="<", ms=6, clip_on=False, zorder=5)
    if saving.interval:
        low, high = max(saving.interval[0], left), min(saving.interval[1], 100.0)
        cut = (low > saving.interval[0], high < saving.interval[1])
        if low < high:
            whisker(axes, y, low, high, "white", 3.0, 9.0, cut)
            whisker(axes, y, low, high, "black", 1.2, 7.0, cut)
    if saving.predicted is not None:
        place = max(saving.predicted, left)
        axes.plot(place, y, color="white", marker="D", ms=6, mec="black", zorder=6)
    axes.text(TEXT_AT, y, _text(saving), va="center", fontsize=8.5, clip_on=False, in_layout=True)


def _text(saving: Saving) -> str:
    """`49 of 66`, whole percent of dense."""
    real, promised = (
        "?" if value is None else f"{value:.0f}" for value in (saving.real, saving.promised)
    )
    return f"{real} of {promised}".replace("-0 ", "0 ")


def _label(contender: Contender) -> str:
    name = f"{contender.method} {density_text(contender.density)}"
    lines = [name, f"[{contender.variant}]" if contender.variant else ""]
    lines.append("" if contender.valid else f"({NO_UPDATE})")
    return "\n".join(line for line in lines if line)


def _legend(accounts: Sequence[Account], savings: Sequence[Sequence[Saving]]) -> list[Artist]:
    marks = dict.fromkeys(account.mark for account in accounts)
    handles: list[Artist] = [
        Patch(facecolor=FILL[mark], alpha=0.85, label=f"real, {mark or 'execution not recorded'}")
        for mark in sorted(marks, key=str)
    ]
    handles.append(Patch(facecolor="white", edgecolor="#444444", ls="--", label="promised"))
    if any(saving.predicted is not None for three in savings for saving in three):
        style = {"color": "white", "marker": "D", "mec": "black", "ls": "", "ms": 6}
        handles.append(Line2D([], [], label="predicted", **style))
    return handles
