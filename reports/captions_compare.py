"""The words around the comparison of two studies: what was compared, by what, and what was not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bench.reason_codes import worded
from bench.wording import count
from reports import captions
from reports.captions_time import ONE_LAUNCH
from reports.compare_match import AFTER, BEFORE, Difference, Match
from reports.compare_times import REFERENCE, Comparison, TimeChange
from reports.formats import estimate
from reports.load import Run
from reports.verdicts import EQUIVALENCE, FEWEST_LAUNCHES

ACCURACY = (
    "Test split, checkpoint selected on the validation split, mean over the seeds that both "
    "studies have. Differences are after minus before in percentage points, paired by seed; "
    "intervals: 95 %, Student's t over seeds, none for one seed."
)
COUNTS = (
    "Exact counts, after minus before, seed by seed; smallest to largest where seeds differ. The "
    "file holds all counts, the table those that differ. They are compared under unlike "
    "conditions too."
)
LEFT_OUT = (
    "A configuration is workload, method with its options, density and seed; the rest is a "
    "condition. Runs listed here are in no other table."
)


def caption(m: Match) -> str:
    """Workload, machine, batch and schedule; both sides' where they differ."""
    sides = [
        captions.caption(setting, runs)
        for setting, runs in zip(m.settings, (m.before, m.after), strict=True)
    ]
    if sides[0] == sides[1]:
        return sides[0]
    return f"{BEFORE}: {sides[0]}; {AFTER}: {sides[1]}"


def setting_columns(m: Match) -> dict[str, Any]:
    """Both sides' settings for a CSV row."""
    sides = zip((BEFORE, AFTER), m.settings, strict=True)
    return {
        f"{side}_{column}": value
        for side, setting in sides
        for column, value in captions.setting_columns(setting).items()
    }


def times_note(comparison: Comparison) -> str:
    """How ratios, intervals and verdicts came about; the same for all sections."""
    units, paired = ("launches", "round") if comparison.is_timed else ("runs", "seed")
    whole = (
        "The schedule-weighted mean step of every launch"
        if comparison.is_timed
        else "The mean step of every run without its warm-up"
    )
    return (
        f"{whole}; n: {units} {BEFORE} and {AFTER}. Ratios are time after divided by time before: "
        "below 1, it became faster. The two studies were measured in different sittings, so the "
        f"ratios are not paired: 95 % intervals by Welch on logarithms over {units}. Relative to "
        f"{REFERENCE}: the time of both studies divided by that of their own {REFERENCE}, paired "
        f"by {paired}, then compared. {_family(comparison)} "
        "Faster or slower: the whole interval is beyond the noise floor; same: all of it is within "
        f"{EQUIVALENCE:.0%}; else ambiguous. Fewer than {FEWEST_LAUNCHES} {units} on a side: no "
        f"verdict. {_floor(comparison)} Smallest visible effect: what would have been called "
        "slower with 95 % probability."
    )


def time_notes(comparison: Comparison, changes: Sequence[TimeChange]) -> list[str]:
    """What is particular to rows of one pair of settings."""
    m = changes[0].match
    notes = [
        *_conditions(m.differences, comparison.force),
        *_basis(changes),
        *_few(comparison, changes),
        *_no_floor(comparison, changes),
    ]
    timeless = [c for c in changes if c.before_ms is None or c.after_ms is None]
    if timeless:
        notes.append(f"Without a time in one of the studies: {_names(timeless)}.")
    return [*notes, *section_notes(comparison, [c.match for c in changes])]


def section_notes(comparison: Comparison, matches: Sequence[Match]) -> list[str]:
    """Cautions that the runs carry, and what was left out of their workload."""
    workload = matches[0].configuration.workload
    lone = [u for u in comparison.matching.unmatched if u.configuration.workload == workload]
    counts = Counter(u.side for u in lone for _ in u.seeds)
    left = " and ".join(f"{counts[side]} {side}" for side in (BEFORE, AFTER) if counts[side])
    notes = [
        *_cautions(BEFORE, (run for m in matches for run in m.before)),
        *_cautions(AFTER, (run for m in matches for run in m.after)),
    ]
    if not left:
        return [*notes, "Left out: none of the workload's runs."]
    return [*notes, f"Left out of this workload, and listed under `Not compared`: runs, {left}."]


def _family(comparison: Comparison) -> str:
    judged = [change.judged for change in comparison.times if change.judged]
    widths = [judgement.widening for judgement in judged if judgement.low is not None]
    if not widths:
        return "No row has a verdict here."
    return (
        f"Verdicts of one family of {count(len(widths), 'row')}: simultaneous intervals "
        f"(Bonferroni, 95 % for all together), up to {max(widths):.1f} times as wide as those "
        "shown."
    )


def conditions(differences: Iterable[Difference]) -> str:
    return "; ".join(map(str, differences))


def _conditions(differences: Sequence[Difference], force: bool) -> list[str]:
    if not differences:
        return []
    if force:
        return [
            f"Forced: conditions differ, so the ratios may be theirs: {conditions(differences)}."
        ]
    return [
        f"Times are not compared, since conditions differ: {conditions(differences)}. "
        "`--force` compares them all the same."
    ]


def _basis(changes: Sequence[TimeChange]) -> list[str]:
    notes = []
    reference = next((c for c in changes if c.is_reference), None)
    if reference and reference.measured:
        notes.append(
            f"Judged: time relative to {REFERENCE} of the same study, since the machine may have "
            f"been faster in one of the two sittings. {REFERENCE.capitalize()} itself took "
            f"{estimate(reference.measured)} of its time before; whether that is the machine or "
            "the program, two studies cannot tell."
        )
    plain = [c for c in changes if c.judged and c.to_reference is None]
    if plain:
        notes.append(
            f"Judged as measured, for lack of {REFERENCE} beside it in both studies: "
            f"{_names(plain)}. A machine that was faster in one sitting looks like a difference."
        )
    return notes


def _few(comparison: Comparison, changes: Sequence[TimeChange]) -> list[str]:
    single = [c for c in changes if c.measured and c.measured.runs == 1]
    if not single:
        return []
    if comparison.is_timed:
        return [f"One launch only, so that the interval {ONE_LAUNCH}: {_names(single)}."]
    return [f"One run only on a side, so there is no interval and no verdict: {_names(single)}."]


def _no_floor(comparison: Comparison, changes: Sequence[TimeChange]) -> list[str]:
    without = [c for c in changes if c.judged and c.floor is None]
    if not without:
        return []
    why = (
        "a study has no A/A"
        if comparison.is_timed
        else f"no two seeds of {REFERENCE} are in both studies"
    )
    return [f"No noise floor, as {why}, so nothing is told apart: {_names(without)}."]


def _floor(comparison: Comparison) -> str:
    if comparison.is_timed:
        return (
            "Noise floor: the larger one of the two studies' A/A (the reference of a launch "
            "against its second entry)."
        )
    return (
        f"Noise floor: how far {REFERENCE} of one seed moved between the studies, beyond what all "
        "its seeds moved."
    )


def _cautions(side: str, runs: Iterable[Run]) -> list[str]:
    each = {run["run_id"]: run for run in runs}.values()  # a run may be in several rows
    counts = Counter(code for run in each for code in run["reason_codes"] or ())
    return [f"Caution, {side}, {count(n, 'run')}: {worded(code)}." for code, n in counts.items()]


def _names(changes: Iterable[TimeChange]) -> str:
    return ", ".join(dict.fromkeys(c.match.configuration.text for c in changes))
