"""Best validation accuracy so far against cumulative cost, one panel per density."""

from matplotlib.figure import Figure

from reports import captions
from reports.captions_matched import cost_text
from reports.matched import Matched, Peers
from reports.plot_style import title
from reports.plots_curves import Axis, Drawn, draw, seed_counts


def best_so_far(matched: Matched, peers: Peers) -> Figure:
    """Steps, as accuracy between evaluations is that of the last one; a vertical line at C."""
    unit, unit_name = matched.cost.unit(peers.farthest)
    drawn = [
        Drawn(e.contender, e.name, e.label, [(course.cost, course.best) for course in e.courses])
        for e in peers.entrants
    ]
    axis = Axis(matched.cost.axis(unit_name), unit, at=peers.matched_cost)
    figure = draw(drawn, axis, "best top-1 accuracy so far, validation split, %", held=True)
    note = (
        f"Bold: mean over seeds; thin: each seed ({seed_counts(drawn)}). Dashed vertical line: "
        f"C = {cost_text(matched, peers, peers.matched_cost)}, which all runs reached"
    )
    head = f"Accuracy against {matched.cost.quantity}"
    title(figure, head, f"{captions.caption(peers.setting, peers.runs)}. {note}.")
    return figure
