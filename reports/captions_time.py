"""The words around the tables of contenders that were timed side by side."""

from collections.abc import Iterable, Sequence

from bench.reason_codes import FEWEST_LAUNCHES
from reports.formats import estimate, number
from reports.load import Run
from reports.side_by_side import Comparison, why_not
from reports.summary_time import FENCE, TimedContender
from reports.verdicts import EQUIVALENCE

INTERVAL = (
    "95 % intervals: hierarchical bootstrap (launches, each of fresh processes; then rounds), "
    "Student's t for the number of launches. Ratios are paired by round."
)
VERDICTS = (
    "Verdicts are family-wise: of all pairs of one setting, simultaneous t intervals (Bonferroni, "
    "95 % for all of them together). Faster or slower: the whole interval is beyond the noise "
    f"floor; same: all of it is within the noise floor or {EQUIVALENCE:.0%}, whichever is larger; "
    f"else ambiguous. Fewer than {FEWEST_LAUNCHES} launches: no verdict."
)
FLOOR = (
    "Noise floor: the largest ratio of one launch (95 % quantile of more than 20) between the two "
    "entries of the reference. Smallest visible effect: what would have been called slower with "
    "95 % probability."
)
FLAGGED = (
    f"Flagged: blocks outside Tukey's fences ({FENCE:g} interquartile ranges) of their segment, of "
    "all blocks; none is left out."
)
METHOD = (
    "Contenders were timed side by side. A launch starts each of them, and the reference twice, in "
    "a fresh process; in each round of a launch everyone times one block of every segment of its "
    "schedule, one contender at a time, in random order. A block's value is the mean (or median) "
    "of its steps; of update windows, that of whole windows. The schedule-weighted step of a round "
    "is the sum over kinds of step of share times value, plus updates per step times the update "
    "cost, which is the window minus as many steps of the kinds that would have stood there. "
    "Ratios are formed within a round, as logarithms, from the reference's first entry alone, and "
    "averaged over the rounds of a launch, then over launches. The standard error is that of the "
    "hierarchical bootstrap (launches with replacement, then rounds within each) times "
    "sqrt(R / (R - 1)) for R launches, in closed form: the limit of infinitely many resamples. The "
    "interval is the estimate times or divided by exp(t * standard error), t being Student's with "
    "R - 1 degrees of freedom; update costs, which may be negative, are treated without the "
    "logarithm. It counts the variance between rounds twice, so that it covers more than 95 % "
    "where launches hardly differ. With one launch, R counts its rounds: the interval then leaves "
    f"out all variation between launches. {VERDICTS} {FLOOR}"
)
MARK = "(!)"
"""Beside figures whose runs carry reason codes."""
ONE_LAUNCH = "covers only the variation within one launch of processes, not that between launches"


def settings_notes(comparison: Comparison) -> list[str]:
    """n, A/A, how it ended, and what is unusual about one setting."""
    return [
        f"n: {counts(comparison.contenders)}.",
        _again(comparison),
        *_ends(comparison.contenders),
        *_cautions(comparison),
    ]


def counts(contenders: Iterable[TimedContender]) -> str:
    """Launches and rounds (in all), said once where all have the same."""
    named: dict[str, list[str]] = {}
    for contender in contenders:
        n = launches_and_rounds(contender)
        named.setdefault(n, []).append(contender.facts.contender.label_with_density)
    if len(named) == 1:
        return f"launches / rounds (in all), of every contender {next(iter(named))}"
    parts = (f"{n} of {', '.join(names)}" for n, names in named.items())
    return f"launches / rounds (in all), {'; '.join(parts)}"


def launches_and_rounds(contender: TimedContender) -> str:
    launches = {launch for launch, _ in contender.cells}
    return f"{len(launches)} / {len(contender.cells)}"


def family(comparison: Comparison) -> str:
    """How many pairs share the 5 %, and what that costs: a ratio may be far from 1 by its own
    interval, and yet ambiguous among many."""
    judged = [pair.judged for pair in comparison.pairs if pair.judged.low is not None]
    if not judged:
        return f"No pair has {FEWEST_LAUNCHES} launches: there is no verdict."
    factors = sorted({judgement.widening for judgement in judged})
    shown = " to ".join(dict.fromkeys(f"{x:.1f}" for x in (factors[0], factors[-1])))
    pairs = f"{len(judged)} pair{'s' * (len(judged) != 1)}"
    floor = comparison.floor.fraction if comparison.floor else 0.0
    same = f"; same means within ±{number(100 * EQUIVALENCE, 2)} %" if floor else ""
    return (
        f"Verdicts of one family of {pairs}: their simultaneous intervals are {shown} times as "
        f"wide as those shown, and more launches narrow both{same}."
    )


def marked(comparison: Comparison) -> list[str]:
    """A note naming the contenders that carry a caution; their figures carry MARK."""
    named = [
        f"{t.facts.contender.label_with_density} ({', '.join(t.codes)})"
        for t in comparison.contenders
        if t.codes
    ]
    return [f"{MARK}: with a caution, explained at the end: {'; '.join(named)}."] if named else []


def _again(comparison: Comparison) -> str:
    floor, again = comparison.floor, comparison.again
    if floor is None or again is None:
        return "No A/A: no contender was entered twice, so there is no noise floor and no verdict."
    names = [t.facts.contender.label_with_density for t in comparison.contenders if t.again]
    n = f"{floor.launches} launch{'es' * (floor.launches != 1)}"
    return (
        f"A/A: {' and '.join(names)}, entered twice, takes {estimate(again)} of its own time; "
        f"noise floor ±{number(100 * floor.fraction, 2)} %, from {n}."
    )


def _ends(contenders: Sequence[TimedContender]) -> list[str]:
    """Why timing stopped, as the runs say."""
    runs = _runs(contenders)
    reasons = list(dict.fromkeys(run["stopped"] or "interrupted before its end" for run in runs))
    notes = [f"Timing stopped: {'; '.join(reasons)}."] if reasons else []
    if any(run["side_by_side"] is False for run in runs):
        notes.append(
            "Contenders did not fit together: every block was timed in a fresh process of its own."
        )
    return notes


def _cautions(comparison: Comparison) -> list[str]:
    notes = []
    if comparison.dense is None:
        notes.append("No valid dense run in this setting: no ratio to dense.")
    labels = {t: t.facts.contender.label_with_density for t in comparison.contenders}
    single = [labels[t] for t in labels if t.mean and t.mean.runs == 1]
    if single:
        notes.append(f"One launch only, so that the interval {ONE_LAUNCH}: {', '.join(single)}.")
    reasons = {t: why_not(t) for t in labels}  # a label may hold its reason
    out = [
        labels[t] if reason in labels[t] else f"{labels[t]} ({reason})"
        for t, reason in reasons.items()
        if reason
    ]
    if out:
        notes.append(f"In no ratio: {', '.join(out)}.")
    return notes


def _runs(contenders: Sequence[TimedContender]) -> list[Run]:
    return [run for contender in contenders for run in contender.runs]
