"""Tables of a study at equal cost: how accurate who was by then, and what a target cost."""

from collections.abc import Sequence
from typing import Any

from reports import captions, captions_matched
from reports.formats import integer, percent, points, share, spread, with_interval
from reports.matched import Entrant, Matched, Peers
from reports.matched_costs import Cost
from reports.matched_leads import Lead, leads, over_seeds, reference_of
from reports.statistics import Estimate
from reports.summary import Range, column_range, worst_budget_ratio
from reports.table import Column, Section, Shown, Table
from reports.table_parts import ACTIVE, DENSITY, METHOD, active

NAMING = (
    *(METHOD, DENSITY, ACTIVE),
    Column("seeds", "seeds", integer),
    Column("total_steps", "steps of its schedule", integer),
)


def at_equal_cost(matched: Matched) -> Table:
    judged = leads(matched.settings)
    cost, base = matched.cost, matched.cost.base
    sections = []
    for peers in matched.settings:
        unit, unit_name = cost.unit(peers.farthest)
        columns = (
            *NAMING,
            _cost_column(cost, f"end_{base}", f"cost at its end, {unit_name}", unit),
            Column("schedule_done_percent", "of its schedule at C, %"),
            Column("top1_percent", "top-1 at C, % [95%]", percent, interval=True),
            Column("minus_barter_points", "minus barter, points [95%]", points, interval=True),
            Column("verdict", "verdict", text=True),
        )
        matched_cost = peers.matched_cost
        rows = [
            _named(entrant)
            | {
                f"end_{base}": _mean([course.end for course in entrant.courses]),
                "schedule_done_percent": _schedule_done(entrant, matched_cost),
                "top1_percent": _top1(entrant, matched_cost),
                **_lead(entrant, peers, judged.get(entrant)),
            }
            for entrant in peers.entrants
        ]
        caption = f"C = {captions_matched.cost_text(matched, peers, matched_cost)}"
        notes = captions_matched.equal_cost_notes(matched, peers)
        own = {f"matched_cost_{base}": matched_cost}
        sections.append(_section(peers, caption, columns, rows, notes, own))
    title = f"Accuracy at equal {cost.quantity}"
    notes = captions_matched.equal_cost_method(matched, judged.values())
    return Table(f"match_{cost.name}", title, sections, notes)


def to_target(matched: Matched, asked: float | None) -> Table:
    """What every contender paid for one accuracy.

    Args:
        asked: top-1 in percent; None: what every contender of a setting reaches on average.
    """
    cost, base = matched.cost, matched.cost.base
    sections = []
    for peers in matched.settings:
        unit, unit_name = cost.unit(peers.farthest)
        columns = (
            *NAMING,
            Column("reached", "seeds that reached it"),
            _cost_column(cost, f"target_{base}", f"cost until then, {unit_name} [95%]", unit, True),
        )
        target = peers.common_top1 if asked is None else asked
        rows = [_named(entrant) | _reached(entrant, target, base) for entrant in peers.entrants]
        notes = captions_matched.target_notes(matched, peers, target, asked is not None)
        own = {"target_top1_percent": target}
        sections.append(_section(peers, f"target {target:.2f} %", columns, rows, notes, own))
    title = f"{cost.quantity.capitalize()} to a target accuracy"
    notes = captions_matched.target_method(matched)
    return Table(f"match_target_{cost.name}", title, sections, notes)


def _section(
    peers: Peers,
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[str],
    own: dict[str, float],
) -> Section:
    setting = captions.setting_columns(peers.setting) | own
    del setting["total_steps"]  # each row has its own
    whole = f"{captions.caption(peers.setting, peers.runs)}; {caption}"
    return Section(whole, columns, rows, notes, setting, heads=2)


def _named(entrant: Entrant) -> dict[str, Any]:
    contender = entrant.contender
    parameters = column_range(contender.runs, "active_parameters")
    return {
        "method": contender.label,
        "density": contender.density,
        "active_parameters": active(parameters, worst_budget_ratio(contender.runs)),
        "seeds": entrant.seeds,
        "total_steps": entrant.total_steps,
    }


def _cost_column(cost: Cost, key: str, title: str, unit: float, interval: bool = False) -> Column:
    """Of costs in base units; the interval of a cost ends at 0."""

    def show(e: Estimate | float) -> str:
        if isinstance(e, Estimate):
            return with_interval(e, lambda value: cost.text(max(value, 0.0), unit))
        return cost.text(e, unit)

    return Column(key, title, show, interval)


def _schedule_done(entrant: Entrant, cost: float) -> Shown | None:
    done = [course.done_at(cost) for course in entrant.courses]
    known = [100 * fraction for fraction in done if fraction is not None]
    if not known:
        return None
    there = Range(min(known), max(known), _mean(known))
    mark = f" {captions_matched.MID}" * captions_matched.is_mid_schedule(entrant, cost)
    return Shown(f"{spread(there, share)}{mark}", there.mean)


def _top1(entrant: Entrant, cost: float) -> Estimate | Shown | None:
    values = entrant.top1_at(cost)
    missing = entrant.seeds - len(values)
    if missing:
        return Shown(f"not evaluated by then: {missing} of {entrant.seeds}")
    return over_seeds(list(values.values()))


def _lead(entrant: Entrant, peers: Peers, lead: Lead | None) -> dict[str, Any]:
    if reference_of(entrant, peers) is entrant:
        return {"minus_barter_points": Shown("reference", 0.0), "verdict": "reference"}
    if lead is None:
        return {}
    return {"minus_barter_points": lead.difference, "verdict": str(lead.verdict)}


def _reached(entrant: Entrant, target: float, base: str) -> dict[str, Any]:
    costs = entrant.by_seed(lambda course: course.cost_of(target))
    missed = [top1 for seed, top1 in entrant.final_by_seed().items() if seed not in costs]
    there = f"{len(costs)} of {entrant.seeds}"
    if missed:
        text = f"not reached by {len(missed)} of {entrant.seeds} (best {max(missed):.2f} %)"
        cost: Estimate | Shown | None = Shown(text)
    else:
        cost = over_seeds(list(costs.values()))
    return {"reached": Shown(there, len(costs)), f"target_{base}": cost}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
