"""The words around tables of equal cost: what was matched, where, and what is not in it."""

from collections import defaultdict
from collections.abc import Iterable

from bench.wording import count
from reports import captions
from reports.matched import Entrant, Matched, Peers
from reports.matched_leads import REFERENCE, Lead

MID = "(mid-schedule)"
MOST_NAMES = 6
OVER_SEEDS = (
    "mean over seeds, 95 % by Student's t; no interval for one seed, nor where all seeds are equal"
)


def is_mid_schedule(entrant: Entrant, cost: float) -> bool:
    """Whether a run of it was evaluated by then, and had not ended."""
    done = [course.done_at(cost) for course in entrant.courses]
    return any(fraction is not None and fraction < 1 for fraction in done)


def cost_text(matched: Matched, peers: Peers, cost: float) -> str:
    """With its unit, which is that of the peers' tables."""
    unit, name = matched.cost.unit(peers.farthest)
    return f"{matched.cost.text(cost, unit)} {name}"


def equal_cost_notes(matched: Matched, peers: Peers) -> list[str]:
    """What is particular to one setting."""
    cost = peers.matched_cost
    ended = ", ".join(entrant.label_with_density for entrant in peers.limiting)
    notes = [
        f"C = {cost_text(matched, peers, cost)} is the largest cost that all of the "
        f"{count(len(peers.runs), 'run')} reached. There ended: {ended}."
    ]
    if any(is_mid_schedule(entrant, cost) for entrant in peers.entrants):
        notes.append(
            f"{MID}: C lies before the end of its schedule, so its learning rate was not annealed "
            "yet. Equal cost inside a schedule understates what a schedule of that cost would give."
        )
    return [*notes, *left_out(matched, peers)]


def equal_cost_method(matched: Matched, leads: Iterable[Lead]) -> list[str]:
    """How the figures came about; the same for all settings."""
    judged = sum(lead.difference.se is not None for lead in leads)
    together = (
        f"The {count(judged, 'interval')} of differences hold together with 95 % (Bonferroni). "
        if judged > 1
        else ""
    )
    return [
        _cost(matched),
        "Top-1 at C: validation split, on which checkpoints are selected; the best evaluation at "
        f"or before C, never interpolated; {OVER_SEEDS}. Minus {REFERENCE}: the difference to "
        f"{REFERENCE} at the same density, and of the same schedule where it has several, paired "
        f"by seed. {together}Higher or lower: the whole interval is on that side of zero; else "
        "undecided.",
    ]


def target_notes(matched: Matched, peers: Peers, target: float, asked: bool) -> list[str]:
    """What is particular to one setting."""
    why = (
        "as asked for"
        if asked
        else "chosen as the lowest of the contenders' mean best top-1, so that every contender "
        "reaches it on average; `--target-top1` sets another one"
    )
    return [f"Target: {target:.2f} % top-1, {why}.", *left_out(matched, peers)]


def target_method(matched: Matched) -> list[str]:
    return [
        _cost(matched),
        "That of the first evaluation on the validation split with the target, so it is known up "
        f"to one interval between evaluations; {OVER_SEEDS}. Where a seed missed it there is no "
        "mean: it would be that of the fast ones. A schedule of another length anneals its "
        "learning rate at another cost.",
    ]


def left_out(matched: Matched, peers: Peers) -> list[str]:
    """Runs of the workload that have no place in it, and failed ones."""
    workload = peers.setting["workload"]
    names: dict[str, list[str]] = defaultdict(list)
    for run, reason in matched.without:
        if run["workload"] == workload:
            names[reason].append(captions.run_text(run))
    notes = [f"Not in it, {reason}: {_listed(runs)}." for reason, runs in names.items()]
    shown = {run["run_id"] for run in matched.records.shown}
    all_shown = all(
        run["run_id"] in shown for run in matched.records.runs if run["workload"] == workload
    )
    if notes and all_shown:
        return notes
    return [*notes, *captions.left_out(matched.records, peers.setting)]


def _cost(matched: Matched) -> str:
    quantity = matched.cost.quantity.capitalize()
    return f"{quantity}: {matched.cost.meaning}; that of a run which it continues included."


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], f"and {more} more"] if more > 0 else names)
