"""Widths per layer over training of one run of a dynamic method: change since the first step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from reports import captions
from reports.contenders import Contender
from reports.load import Records
from reports.plot_style import title

UNITS = (("heads_per_layer", "heads"), ("channels_per_layer", "FFN channels"))


def widths(contender: Contender, records: Records) -> Figure | None:
    """Heat map of each kind of unit for the lowest seed; None without widths that change."""
    run = contender.first_run
    rows = records.widths(run["run_id"])
    maps = [(name, _matrix(rows, column)) for column, name in UNITS]
    drawn = [(name, matrix) for name, matrix in maps if matrix is not None]
    if not any((matrix != matrix[:, :1]).any() for _, matrix in drawn):
        return None
    layers = max(len(matrix) for _, matrix in drawn)
    height = 1.6 + len(drawn) * (0.75 + 0.24 * layers)
    figure = Figure(figsize=(8.0, height), layout="constrained")
    panels = figure.subplots(len(drawn), 1, squeeze=False, sharex=True)[:, 0]
    updated = sorted({u["step"] for u in _executed(records, run["run_id"])})
    for axes, (name, matrix) in zip(panels, drawn, strict=True):
        _heat_map(figure, axes, name, matrix)
        if updated:
            for edge in (updated[0], updated[-1]):
                axes.axvline(edge + 0.5, color="#444444", lw=1, ls="--")
    panels[-1].set_xlabel("optimizer step")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    head = f"Widths per layer over training: {contender.label_with_density}"
    window = f"Dashed: first and last update (steps {updated[0]:,} and {updated[-1]:,}). "
    details = f"{captions.caption(contender.setting, [run])}. " + (window if updated else "")
    shown = "Numbers: units in the first and last step"
    title(figure, head, f"{details}{shown}. n = 1 run (seed {run['seed']}).")
    return figure


def _executed(records: Records, run_id: str) -> list[dict[str, Any]]:
    return [u for u in records.updates if u["run_id"] == run_id and u["executed"]]


def _matrix(rows: Sequence[dict[str, Any]], column: str) -> NDArray[np.int64] | None:
    """Units of shape (layers, steps); None if they were not recorded for every step."""
    lists = [row[column] for row in rows]
    if not lists or any(not widths for widths in lists) or len({len(w) for w in lists}) != 1:
        return None
    return np.array(lists, dtype=np.int64).T


def _heat_map(figure: Figure, axes: Axes, name: str, matrix: NDArray[np.int64]) -> None:
    layers, steps = matrix.shape
    change = matrix - matrix[:, :1]
    most = max(1, int(np.abs(change).max()))
    image = axes.imshow(
        change,
        cmap="PuOr_r",
        vmin=-1.4 * most,  # the map's darkest ends hide text and lines
        vmax=1.4 * most,
        aspect="auto",
        interpolation="nearest",
        extent=(0.5, steps + 0.5, layers + 0.5, 0.5),
    )
    axes.set_yticks(range(1, layers + 1))
    axes.set_ylabel("layer")
    axes.set_title(name, loc="left")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    for layer in range(layers):
        for x, width, side in (
            (0.008, matrix[layer, 0], "left"),
            (0.992, matrix[layer, -1], "right"),
        ):
            axes.text(
                x,
                layer + 1,
                f"{width}",
                transform=axes.get_yaxis_transform(),
                ha=side,
                va="center",
                fontsize=8,
                color="white" if abs(width - matrix[layer, 0]) > 0.7 * most else "black",
            )
    bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=12)
    bar.set_label("change, units")
    bar.ax.set_ylim(-most, most)
    bar.locator = MaxNLocator(nbins=5, integer=True)
    bar.update_ticks()
