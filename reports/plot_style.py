"""How every picture looks and is saved. No pyplot: no global figures, and less to import."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.contenders import method_order

DPI = 150
PALETTE = (
    *("#4D4D4D", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#882255", "#999933", "#332288"),
)
"""Told apart by colour-blind readers: Okabe and Ito's (without yellow, too pale for lines; grey
for their black, which would hide whiskers), then three of Tol's muted scheme."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")
_NAMED = {"dense": 0, "static": 1, "barter": 2}

_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#D9D9D9",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "bench",  # equal records give equal files
}


def colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour for each method; dense, static and barter keep theirs in every study."""
    others = [m for m in sorted(set(methods), key=method_order) if m not in _NAMED]
    spare = PALETTE[len(_NAMED) :]
    chosen = {method: PALETTE[index] for method, index in _NAMED.items()}
    return chosen | {method: spare[i % len(spare)] for i, method in enumerate(others)}


def line_styles(methods: Sequence[str]) -> dict[str, dict[str, str]]:
    """Colour, marker and dashes of each method's line: told apart in grey, too."""
    colour = colours(methods)
    ordered = sorted(set(methods), key=method_order)
    return {
        method: {
            "color": colour[method],
            "marker": MARKERS[i % len(MARKERS)],
            "ls": LINES[(i // len(MARKERS)) % len(LINES)],
        }
        for i, method in enumerate(ordered)
    }


@contextmanager
def styled() -> Iterator[None]:
    """The project's matplotlib settings, undone afterwards."""
    with mpl.rc_context(_RC):
        yield


def title(figure: Figure, head: str, details: str) -> None:
    """What is shown, and beneath it in which setting; aligned left, wrapped."""
    width = int(figure.get_figwidth() * 13)
    lines = "\n".join(textwrap.wrap(details, width))
    figure.suptitle(f"{head}\n{lines}", x=0.01, ha="left", fontsize=9.5, linespacing=1.35)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `name.png` and `name.svg`."""
    paths = []
    for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
        path = folder / f"{name}{suffix}"
        figure.savefig(path, dpi=DPI, metadata=metadata, facecolor="white")
        paths.append(path)
    return paths


def grid(axes: Axes, axis: str) -> None:
    axes.grid(True, axis=axis)  # pyright: ignore[reportArgumentType] - "x", "y" or "both"
    axes.tick_params(length=3)


def upright_whisker(axes: Axes, x: float, low: float, high: float, color: str) -> None:
    """A vertical interval; an arrow in place of a cap where it goes on outside the picture, whose
    limits must stand already."""
    bottom, top = axes.get_ylim()
    axes.plot([x, x], [max(low, bottom), min(high, top)], color=color, lw=1.4)
    for end, cut_at, arrow in ((low, low < bottom, "v"), (high, high > top, "^")):
        y = min(max(end, bottom), top)
        marker = arrow if cut_at else "_"
        axes.plot(x, y, color=color, marker=marker, ms=6, mew=1.4, clip_on=False)


def limits(points: Sequence[float], ends: Sequence[float], least: float) -> tuple[float, float]:
    """Of an axis: all points, and the ends of intervals as far as they do not hide these.

    Args:
        least: room beyond the points that intervals may fill in any case, in the axis's unit.
    """
    low, high = min(points), max(points)
    room = max(least, high - low)
    bottom = max(min([low, *ends]), low - room)
    top = min(max([high, *ends]), high + room)
    margin = 0.05 * (top - bottom) or least
    return bottom - margin, top + margin


def whisker(
    axes: Axes,
    y: float,
    low: float,
    high: float,
    color: str,
    width: float = 1.6,
    cap: float = 8.0,
    cut: tuple[bool, bool] = (False, False),
) -> None:
    """A horizontal interval; an arrow in place of a cap where it goes on outside the picture.

    Args:
        width, cap: in points.
        cut: whether it is cut at its low and at its high end.
    """
    axes.plot([low, high], [y, y], color=color, lw=width)
    for end, is_cut, arrow in zip((low, high), cut, "<>", strict=True):
        if is_cut:
            axes.plot(end, y, color=color, marker=arrow, ms=6, zorder=5)
        else:
            axes.plot(end, y, color=color, marker="|", ms=cap, mew=width)
