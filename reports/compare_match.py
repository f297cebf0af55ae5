"""Which runs of two studies are the same configuration, and in which conditions they differ.

A configuration is what was asked for: workload, method with its options, density, seed. Everything
else is a condition: machine, torch, threads, precision, batch, schedule, recipe. Runs are joined
under equal conditions first; what is left over on both sides, once each, is joined as unlike.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reports.contenders import (
    COMPARABLE,
    Setting,
    configured,
    density_text,
    method_order,
    run_name,
    setting_of,
)
from reports.load import Records, Run, Standing

BEFORE, AFTER = "before", "after"
_ENVIRONMENT = (
    *("cpu_capability", "usable_cpu_count", "cpu_governor", "interop_threads"),
    *("cuda_runtime", "cudnn", "timm_version", "tf32_convolutions", "float32_matmul_precision"),
    *("cudnn_benchmark", "deterministic_algorithms", "attention_backends"),
)
"""Of the recorded environment, what step times depend on; and all variables in `settings`."""
_NO_CONDITION = ("gpu", "mode", "chosen")
"""Configuration keys (last part): the device's name says it, the whole study has it, a remark."""


@dataclass(frozen=True)
class Configuration:
    """What a row of a comparison is; its runs differ in their seed alone."""

    workload: str
    method: str
    name: str  # the method with its options that are not defaults
    density: float

    @property
    def text(self) -> str:
        return f"{self.name} {density_text(self.density)}"


@dataclass(frozen=True)
class Difference:
    """A condition with its two values."""

    condition: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.condition} ({self.before} {BEFORE}, {self.after} {AFTER})"


@dataclass(frozen=True)
class Match:
    """Runs of one configuration in both studies, of the same seeds."""

    configuration: Configuration
    before: tuple[Run, ...]
    after: tuple[Run, ...]
    differences: tuple[Difference, ...]
    """Conditions that forbid a comparison of times; empty if there is none."""

    @property
    def settings(self) -> tuple[Setting, Setting]:
        return setting_of(self.before[0]), setting_of(self.after[0])

    @property
    def seeds(self) -> list[int]:
        return sorted({run["seed"] for run in self.before})


@dataclass(frozen=True)
class Unmatched:
    """Runs of one configuration that are in no comparison."""

    side: str
    """Which study holds them."""
    configuration: Configuration
    seeds: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class Matching:
    matches: list[Match]
    unmatched: list[Unmatched]


Group = list[Run]
"""Runs of one study and configuration under equal conditions."""


def match(before: Records, after: Records) -> Matching:
    """Join two studies. Runs that are not used (failed, skipped, invalid) are in no match."""
    mine, theirs = _groups(before), _groups(after)
    matches = [
        made
        for configuration in sorted(mine.keys() & theirs.keys(), key=_order)
        for left, right in _pairs(mine[configuration], theirs[configuration])
        if (made := _match(configuration, left, right)) is not None
    ]
    taken = {run["run_id"] for m in matches for run in m.before}
    unmatched = _unmatched(BEFORE, before.runs, taken, AFTER, after.runs)
    taken = {run["run_id"] for m in matches for run in m.after}
    unmatched += _unmatched(AFTER, after.runs, taken, BEFORE, before.runs)
    return Matching(matches, unmatched)


def configuration_of(run: Run) -> Configuration:
    return Configuration(run["workload"], run["method"], run_name(run), run["density"])


def differences(before: Run, after: Run) -> tuple[Difference, ...]:
    """Conditions in which two runs of one configuration differ.

    A key that one of them lacks is none: a new option's default means that nothing changed. A
    variable that was not set, on the other hand, is a condition, and so is an unknown machine.
    """
    mine, theirs = (
        {column: _text(run[column]) for column in COMPARABLE} for run in (before, after)
    )
    for read in (_configured, _environment):
        left, right = read(before), read(after)
        for key in sorted(left.keys() & right.keys()):
            mine[key], theirs[key] = left[key], right[key]
    if before.environment and after.environment:
        left, right = _variables(before), _variables(after)
        for key in sorted(left.keys() | right.keys()):
            mine[key], theirs[key] = left.get(key, "not set"), right.get(key, "not set")
    return tuple(
        Difference(key, mine[key], theirs[key]) for key in mine if mine[key] != theirs[key]
    )


def _configured(run: Run) -> dict[str, str]:
    return {
        key: value
        for key, value in configured(run).items()
        if key.rsplit(".", 1)[-1] not in _NO_CONDITION
    }


def _environment(run: Run) -> dict[str, str]:
    return {key: run.environment[key] for key in _ENVIRONMENT if key in run.environment}


def _variables(run: Run) -> dict[str, str]:
    prefix = "settings."
    return {
        key.removeprefix(prefix): value
        for key, value in run.environment.items()
        if key.startswith(prefix)
    }


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def _groups(records: Records) -> dict[Configuration, list[Group]]:
    found: dict[Configuration, list[Group]] = defaultdict(list)
    for run in records.runs:
        if run.standing is not Standing.USED:
            continue
        groups = found[configuration_of(run)]
        alike = next((group for group in groups if not differences(group[0], run)), None)
        if alike is None:
            groups.append([run])
        else:
            alike.append(run)
    return found


def _pairs(mine: Sequence[Group], theirs: Sequence[Group]) -> Iterable[tuple[Group, Group]]:
    """Groups under equal conditions; then the one that each side has left, if it is one."""
    lone, free = [], list(theirs)
    for group in mine:
        alike = next((other for other in free if not differences(group[0], other[0])), None)
        if alike is None:
            lone.append(group)
        else:
            free.remove(alike)
            yield group, alike
    if len(lone) == len(free) == 1:
        yield lone[0], free[0]


def _match(configuration: Configuration, mine: Group, theirs: Group) -> Match | None:
    """Of the seeds that both have; None without one."""
    common = {run["seed"] for run in mine} & {run["seed"] for run in theirs}
    if not common:
        return None
    before, after = (
        tuple(sorted((r for r in runs if r["seed"] in common), key=lambda run: run["seed"]))
        for runs in (mine, theirs)
    )
    return Match(configuration, before, after, differences(before[0], after[0]))


def _unmatched(
    side: str, runs: Sequence[Run], taken: set[str], other: str, others: Sequence[Run]
) -> list[Unmatched]:
    """Every run that is in no match, with the reason; alike ones together."""
    there: Mapping[Configuration, list[Run]] = defaultdict(list)
    for run in others:
        there[configuration_of(run)].append(run)
    seeds: dict[tuple[Configuration, str], set[int]] = defaultdict(set)
    for run in runs:
        if run["run_id"] not in taken:
            configuration = configuration_of(run)
            why = _why(side, run, other, there[configuration])
            seeds[configuration, why].add(run["seed"])
    keys = sorted(seeds, key=lambda key: (_order(key[0]), key[1]))
    return [Unmatched(side, c, tuple(sorted(seeds[c, why])), why) for c, why in keys]


def _why(side: str, run: Run, other: str, there: Sequence[Run]) -> str:
    if run.standing is not Standing.USED:
        return _unused(run, side)
    if not there:
        return f"not in the study {other}"
    same_seed = [theirs for theirs in there if theirs["seed"] == run["seed"]]
    if not same_seed:
        return f"this seed is not in the study {other}"
    unused = [theirs for theirs in same_seed if theirs.standing is not Standing.USED]
    if unused:
        return _unused(unused[0], other)
    return f"several times there, and under no conditions of one {other}"


def _unused(run: Run, side: str) -> str:
    return f"{run.standing} {side}: {run.reason.removeprefix(f'{run.standing}: ')}"


def _order(configuration: Configuration) -> tuple[object, ...]:
    method = method_order(configuration.method)
    return configuration.workload, method, configuration.density or 0.0, configuration.name
