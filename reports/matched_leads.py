"""Who was ahead of BARTER at equal cost, as far as the seeds can tell.

Seeds are the units: runs of one seed share initial weights, order of the data and augmentation, so
differences are paired by seed. All pairs of a table are one family: their intervals are
simultaneous by Bonferroni, as those of `reports.verdicts` are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reports.differences import within
from reports.matched import ROUNDING, Entrant, Peers
from reports.statistics import Estimate, student_mean
from reports.summary import difference_by_seed
from reports.verdicts import together

REFERENCE = "barter"


class Verdict(StrEnum):
    """On the top-1 of an entrant beside that of the reference."""

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    ONE_SEED = "undecided (one seed)"
    NO_SPREAD = "undecided (equal difference in all seeds)"


@dataclass(frozen=True)
class Lead:
    """Top-1 minus that of the reference, in points, with its simultaneous interval."""

    difference: Estimate
    verdict: Verdict


def leads(settings: Sequence[Peers]) -> dict[Entrant, Lead]:
    """Of every entrant that has a reference and a common seed with it, at its peers' cost."""
    differences = {
        entrant: difference
        for peers in settings
        for entrant in peers.entrants
        if (difference := _difference(entrant, peers)) is not None
    }
    family = sum(difference.se is not None for difference in differences.values())
    return {entrant: _judge(d, family) for entrant, d in differences.items()}


def reference_of(entrant: Entrant, peers: Peers) -> Entrant | None:
    """The plain BARTER of an entrant's density, and of its schedule where there are several.

    None for dense, for what is invalid, and where no BARTER is the obvious one.
    """
    mine = entrant.contender
    if mine.method == "dense" or not mine.valid:
        return None
    found = [
        other
        for other in peers.entrants
        if other.contender.method == REFERENCE
        and not other.contender.variant
        and other.contender.valid
        and other.contender.density == mine.density
    ]
    alike = [other for other in found if other.total_steps == entrant.total_steps]
    chosen = alike or found
    return chosen[0] if len(chosen) == 1 else None


def over_seeds(values: Sequence[float]) -> Estimate | None:
    """Their mean with Student's interval; see `_unless_equal`."""
    return _unless_equal(student_mean(values))


def _difference(entrant: Entrant, peers: Peers) -> Estimate | None:
    """Paired by seed; None unless all runs of both sides were evaluated by then."""
    reference = reference_of(entrant, peers)
    if reference is None or reference is entrant:
        return None
    cost = peers.matched_cost
    mine, theirs = entrant.top1_at(cost), reference.top1_at(cost)
    complete = (len(mine), len(theirs)) == (entrant.seeds, reference.seeds)
    return _unless_equal(difference_by_seed(mine, theirs)) if complete else None


def _unless_equal(estimate: Estimate | None) -> Estimate | None:
    """Without an interval where all seeds gave the same: accuracies are coarse, and a few equal
    ones do not show that there is no spread."""
    if estimate is None or estimate.se is None:
        return estimate
    if estimate.se > ROUNDING * max(1.0, abs(estimate.value)):
        return estimate
    return replace(estimate, low=None, high=None, se=None)


def _judge(difference: Estimate, family: int) -> Lead:
    if difference.se is None:
        return Lead(difference, Verdict.ONE_SEED if difference.runs == 1 else Verdict.NO_SPREAD)
    lead = within(difference, together(family))
    assert lead.low is not None
    assert lead.high is not None
    above, below = lead.low > 0, lead.high < 0
    return Lead(lead, Verdict.HIGHER if above else Verdict.LOWER if below else Verdict.UNDECIDED)
