"""The gate's procedure: measure, decide, and confirm what looks like a regression by a second,
fresh measurement. No torch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gate.decision import (
    Change,
    CountChange,
    Verdict,
    changes,
    count_changes,
    noise_floor,
)
from bench.gate.gauge import LENGTH, ROUNDS, Gauge
from bench.gate.measurement import Measurement
from bench.schema import AGAIN
from bench.spec import RunSpec
from bench.timing.launcher import Launcher, LaunchError

FINE, REGRESSION, UNDECIDED, NOT_MEASURED = 0, 1, 3, 4
"""Exit codes; 2 is a wrong request."""


@dataclass(frozen=True)
class Plan:
    """How much a gate measures."""

    max_slowdown: float = 0.03
    launches: int = 5
    """Of one measurement; a confirmation has as many again."""


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


def new_gauge(specs: Sequence[RunSpec], logs: Path, device_index: int | None) -> Gauge:
    """Raises LaunchError if a contender cannot be built or counted."""
    launcher = Launcher(logs, device_index, ROUNDS, LENGTH)
    return Gauge(specs, launcher, {spec.run_id: launcher.scout(spec) for spec in specs})


def check(gauge: Gauge, before: Measurement, plan: Plan, say: Callable[[str], None]) -> Outcome:
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
        found = _measured(gauge, before, plan, say, slice(None))
        confirmation: list[Change] = []
        if any(change.verdict is Verdict.SLOWER for change in found):
            say("looks slower: measuring again from the start")
            first = len(gauge.log_ratios[AGAIN])
            confirmation = _measured(gauge, before, plan, say, slice(first, None))
    except LaunchError as error:
        return Outcome(NOT_MEASURED, str(error), counts=counts, now=now)
    now = gauge.measurement()
    floor = noise_floor(now)
    code, reason = _verdict(found, confirmation, worse, floor, plan.max_slowdown)
    return Outcome(code, reason, found, confirmation, counts, floor, missing, now)


def _measured(
    gauge: Gauge, before: Measurement, plan: Plan, say: Callable[[str], None], launches: slice
) -> list[Change]:
    """As many launches as planned, and one look at them: every further look would be one more
    chance of a false alarm."""
    for _ in range(plan.launches):
        number = len(gauge.log_ratios[AGAIN])
        say(f"launch {number + 1}")
        gauge.launch(number, lambda: None)
    return changes(gauge.measurement(launches), before, plan.max_slowdown)


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
    again = {change.label for change in confirmation if change.verdict is Verdict.SLOWER}
    slower = [c.label for c in found if c.verdict is Verdict.SLOWER and c.label in again]
    if slower:
        return REGRESSION, f"slower by more than {threshold:.1%}, twice: {', '.join(slower)}"
    wide = [change.label for change in found if change.verdict is Verdict.UNDECIDED]
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
