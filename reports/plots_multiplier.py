"""What more transfers buy and cost: accuracy and update cost against their number."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports import captions
from reports.contenders import Setting, density_text
from reports.experiment_budgets import multiplier_of
from reports.plot_style import MARKERS, PALETTE, grid, limits, title, upright_whisker
from reports.statistics import Estimate
from reports.summary import Summary

LEAST_ROOM_POINTS, LEAST_ROOM_OF_COST = 2.0, 0.5
"""What an interval may always reach beyond the means: points; a fraction of the largest cost."""
DODGE = 0.1

ValueOf = Callable[[Summary], Estimate | None]


def against_multiplier(setting: Setting, summaries: Sequence[Summary]) -> Figure | None:
    """Two panels, of which one may be missing; None where both are."""
    known = [s for s in summaries if s.contender.valid and multiplier_of(s) is not None]
    panels: list[tuple[ValueOf, str, float]] = []
    if not setting["synthetic_data"] and any(s.top1 for s in known):
        panels.append((lambda s: s.top1, "top-1 accuracy, test split, %", LEAST_ROOM_POINTS))
    costs = [abs(cost.value) for s in known if (cost := s.times.update_cost)]
    if costs:
        room = LEAST_ROOM_OF_COST * max(costs)
        panels.append((lambda s: s.times.update_cost, "update cost, ms per optimizer step", room))
    if not panels:
        return None
    width = 4.4 * len(panels) if len(panels) > 1 else 6.4
    figure = Figure(figsize=(width, 4.6), layout="constrained")
    densities = sorted({s.contender.density for s in known})
    drawn = zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True)
    for axes, (value_of, label, room) in drawn:
        _panel(axes, known, densities, value_of, room)
        axes.set_ylabel(label)
    if len(densities) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9
        )
    runs = [run for s in known for run in s.contender.runs]
    counts = sorted({len(s.contender.runs) for s in known})
    n = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    density = " and ".join(density_text(density) for density in densities)
    details = f"barter at density {density}, n = {n} run{'s' * (counts[-1] != 1)}"
    head = "More transfers: accuracy and update cost"
    note = f"{details}. Whiskers: 95 % interval (it goes on beyond an arrow)"
    title(figure, head, f"{captions.caption(setting, runs)}. {note}.")
    return figure


def _panel(
    axes: Axes,
    summaries: Sequence[Summary],
    densities: Sequence[float],
    value_of: ValueOf,
    room: float,
) -> None:
    points = [(s, value) for s in summaries if (value := value_of(s))]
    ends = [end for _, e in points for end in (e.low, e.high) if end is not None]
    axes.set_ylim(*limits([e.value for _, e in points], ends, room))
    for index, density in enumerate(densities):
        colour = PALETTE[2 + index % (len(PALETTE) - 2)]
        shift = DODGE * (index - (len(densities) - 1) / 2)
        here = [(s, e) for s, e in points if s.contender.density == density]
        xs = [(multiplier_of(s) or 0.0) + shift for s, _ in here]
        for x, (_, e) in zip(xs, here, strict=True):
            if e.low is not None and e.high is not None:
                upright_whisker(axes, x, e.low, e.high, colour)
        axes.plot(
            xs,
            [e.value for _, e in here],
            color=colour,
            marker=MARKERS[index % len(MARKERS)],
            label=f"density {density_text(density)}",
            lw=1.4,
            ms=6,
        )
    ticks = sorted({multiplier_of(s) or 0.0 for s, _ in points})
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.set_xlabel("times the published number of transfers")
    grid(axes, "y")
