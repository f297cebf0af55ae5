"""The gate's procedure: measure, decide, and confirm what looks like a regression by a second,
fresh measurement. No torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.gate.decision import (
    Change,
    CountChange,
    Verdict,
    changes,
    count_changes,
    noise_floor,
)
from bench.gate.display import Watch
from bench.gate.gauge import Gauge
from bench.gate.measurement import Measurement
from bench.gate.turns import ROUNDS, Turns
from bench.run_spec import RunSpec
from bench.schema import AGAIN
from bench.timing.launcher import Launcher, LaunchError

FINE, REGRESSION, UNDECIDED, NOT_MEASURED = 0, 1, 3, 4
"""Exit codes; 2 is a wrong request."""


@dataclass(frozen=True)
class Plan:
    """How much a gate measures."""

    max_slowdown: float = 0.03
    launches: int = 5
    """Of one measurement; more of them where it was too noisy, or has to be confirmed."""


@dataclass(frozen=True)
class Outcome:
    """What a gate found."""

    code: int
    reason: str
    changes: Sequence[Change] = ()
    confirmation: Sequence[Change] = ()
    counts: Sequence[CountChange] = ()
    noise_floor: float | None = None
    not_compared: Sequence[str] = ()
    """Why times were not compared, or which contenders were not."""
    now: Measurement | None = None


def new_gauge(specs: Sequence[RunSpec], logs: Path, device_index: int | None = None) -> Gauge:
    """Raises LaunchError if a contender cannot be built or counted."""
    launcher = Launcher(logs, device_index)
    known = {spec.run_id: launcher.scout(spec) for spec in specs}
    turns = Turns(max(ROUNDS, *(len(scouted.parts) for scouted in known.values())))
    return Gauge(specs, replace(launcher, rounds=turns.rounds, length=turns), known)


def check(gauge: Gauge, before: Measurement, plan: Plan, watch: Watch) -> Outcome:
    """Compare now with a baseline. Never raises for what it finds."""
    now = gauge.measurement()
    counts = count_changes(now, before)
    missing = [f"{label}: not in this call" for label in before.contenders.keys() - now.contenders]
    worse = [change for change in counts if change.is_worse]
    unlike = now.conditions.differences(before.conditions)
    if unlike:
        # Times of unlike machines say nothing; counts do not depend on the machine.
        reasons = [f"times not compared: {text}" for text in unlike]
        code = REGRESSION if worse else FINE
        return Outcome(code, _counts_reason(worse), counts=counts, not_compared=reasons, now=now)
    try:
        launches = plan.launches
        found = _measured(gauge, before, plan, watch, launches)
        if _too_noisy(gauge.measurement(), found, plan):
            watch.said("too noisy to decide: measuring as long again")
            found = _measured(gauge, before, plan, watch, launches)
            launches *= 2
        confirmation: list[Change] = []
        if any(change.verdict is Verdict.SLOWER for change in found):
            watch.said("looks slower: measuring again from the start")
            confirmation = _measured(gauge, before, plan, watch, launches, first=launches)
    except LaunchError as error:
        return Outcome(NOT_MEASURED, str(error), counts=counts, now=now)
    now = gauge.measurement()
    floor = noise_floor(now)
    code, reason = _verdict(found, confirmation, worse, floor, plan.max_slowdown)
    return Outcome(code, reason, found, confirmation, counts, floor, missing, now)


def _measured(
    gauge: Gauge, before: Measurement, plan: Plan, watch: Watch, launches: int, first: int = 0
) -> list[Change]:
    """So many launches more, and one look at all from the `first` on: every further look would be
    one more chance of a false alarm."""
    watch.expect(launches, gauge.blocks)
    for _ in range(launches):
        gauge.launch(len(gauge.log_ratios[AGAIN]), watch.block_done)
    return changes(gauge.measurement(slice(first, None)), before, plan.max_slowdown)


def _too_noisy(now: Measurement, found: Sequence[Change], plan: Plan) -> bool:
    """Asks for widths alone, never for the direction: more launches then favour no side."""
    wide = any(change.verdict is Verdict.UNDECIDED for change in found)
    return wide or noise_floor(now) > plan.max_slowdown


def _verdict(
    found: Sequence[Change],
    confirmation: Sequence[Change],
    worse: Sequence[CountChange],
    floor: float,
    threshold: float,
) -> tuple[int, str]:
    if worse:
        return REGRESSION, _counts_reason(worse)
    if not found:
        return UNDECIDED, "no contender has times in both measurements"
    if floor > threshold:
        return UNDECIDED, f"noise floor {floor:.1%} is above the threshold {threshold:.1%}"
    again = {change.label: change.verdict for change in confirmation}
    suspects = [change.label for change in found if change.verdict is Verdict.SLOWER]
    slower = [label for label in suspects if again[label] is Verdict.SLOWER]
    if slower:
        return REGRESSION, f"slower by more than {threshold:.1%}, twice: {', '.join(slower)}"
    wide = [change.label for change in found if change.verdict is Verdict.UNDECIDED]
    wide += [label for label in suspects if again[label] is Verdict.UNDECIDED]
    if wide:
        return UNDECIDED, f"intervals wider than the threshold: {', '.join(wide)}"
    return FINE, f"no slow-down beyond {threshold:.1%}" + (
        ", the first suspicion was not confirmed" if confirmation else ""
    )


def _counts_reason(worse: Sequence[CountChange]) -> str:
    if not worse:
        return "exact counts are the same or better"
    names = dict.fromkeys(f"{change.label}: {change.count}" for change in worse)
    return f"exact counts are worse: {', '.join(names)}"
