"""One summary per contender: every figure the tables and plots show, computed once."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.contenders import Contender
from reports.load import (
    COLLECTING_KIND,
    DENSE_GRADIENT_KIND,
    ORDINARY_KIND,
    UPDATE_KIND,
    Records,
    Run,
)
from reports.statistics import Estimate, Launch, median, only, student_mean, weighted_mean

MIB = 2**20
PAIRED_COLUMN = "test_top1_percent"


@dataclass(frozen=True)
class Range:
    """Smallest and largest value over runs, and their mean."""

    low: float
    high: float
    mean: float


@dataclass(frozen=True)
class StepTimes:
    """Milliseconds; None where no such step was timed."""

    mean: Estimate | None
    run_means: Range | None  # means of single runs
    median: Estimate | None
    ordinary: Estimate | None
    collecting: Estimate | None
    dense_gradient: Estimate | None
    update: Estimate | None
    topology: Estimate | None  # per optimizer step
    update_cost: Estimate | None  # per optimizer step; see `_update_cost`


@dataclass(frozen=True)
class Summary:
    """A contender's figures. Bytes, MACs and parameters are ranges over runs (None: unknown)."""

    contender: Contender
    times: StepTimes
    peak_allocated: Range | None
    peak_reserved: Range | None
    memory_sources: tuple[str, ...]
    macs_forward: Range | None  # per image
    macs_training: Range | None  # per image, forward plus backward, mean over the run's steps
    macs_ideal: Range | None  # likewise, were nothing inactive computed
    macs_recomputed: Range | None
    macs_total: Range | None  # whole run
    active: Range | None
    active_during: tuple[int, int] | None  # smallest and largest at any update
    allowed: Range | None  # by the method's own rule
    invariants: tuple[str, ...]
    budget: Range | None
    budget_ratio: float | None
    stored: Range | None
    top1: Estimate | None  # percent; `runs` counts seeds
    macro_f1: Estimate | None
    top1_by_seed: Mapping[int, float]
    transfers: "Transfers"


@dataclass(frozen=True)
class Transfers:
    """Transfer counts over the contender's runs, and why transfers were skipped."""

    executed_heads: Range | None
    scheduled_heads: Range | None
    executed_channels: Range | None
    scheduled_channels: Range | None
    skipped: Range | None
    updates: Range | None
    skip_reasons: Mapping[str, int]  # summed over runs


def summarise(contender: Contender, records: Records) -> Summary:
    """Everything there is to say about one contender. Never raises for missing figures."""
    runs = contender.runs
    top1 = by_seed(runs, PAIRED_COLUMN)
    return Summary(
        contender=contender,
        times=_step_times(runs),
        peak_allocated=column_range(runs, "peak_allocated_bytes"),
        peak_reserved=column_range(runs, "peak_reserved_bytes"),
        memory_sources=tuple(sorted({run["memory_source"] or "not recorded" for run in runs})),
        macs_forward=column_range(runs, "macs_forward_per_image"),
        macs_training=_per_image(runs, "training_macs_total"),
        macs_ideal=_per_image(runs, "ideal_training_macs_total"),
        macs_recomputed=column_range(runs, "macs_recomputed_per_image"),
        macs_total=column_range(runs, "training_macs_total"),
        active=column_range(runs, "active_parameters"),
        active_during=_active_during(runs),
        allowed=column_range(runs, "allowed_parameters"),
        invariants=tuple(sorted({r["budget_invariant"] for r in runs if r["budget_invariant"]})),
        budget=column_range(runs, "budget_parameters"),
        budget_ratio=worst_budget_ratio(runs),
        stored=column_range(runs, "stored_parameters"),
        top1=student_mean(list(top1.values())),
        macro_f1=student_mean(list(by_seed(runs, "test_macro_f1_percent").values())),
        top1_by_seed=top1,
        transfers=_transfers(runs, records),
    )


def paired_difference(mine: Summary, other: Summary) -> Estimate | None:
    """Top-1 of `mine` minus `other` in points, paired by seed; None without a common seed.

    Runs of one seed share initial weights, data order and augmentation, so the difference
    varies less than either.
    """
    return difference_by_seed(mine.top1_by_seed, other.top1_by_seed)


def difference_by_seed(mine: Mapping[int, float], other: Mapping[int, float]) -> Estimate | None:
    """Mean over common seeds of mine minus other; None without one."""
    common = sorted(mine.keys() & other.keys())
    return student_mean([mine[seed] - other[seed] for seed in common])


# ------------------------------------------------------------------------ times


def _step_times(runs: Sequence[Run]) -> StepTimes:
    launches = [run.steps.launch for run in runs if len(run.steps.launch.times)]
    topology = [t for run in runs if (t := run.steps.topology) is not None and len(t.times)]
    return StepTimes(
        mean=weighted_mean(launches),
        run_means=_range_of([float(launch.times.mean()) for launch in launches]),
        median=median(launches),
        ordinary=weighted_mean(launches, only(ORDINARY_KIND)),
        collecting=weighted_mean(launches, only(COLLECTING_KIND)),
        dense_gradient=weighted_mean(launches, only(DENSE_GRADIENT_KIND)),
        update=weighted_mean(launches, only(UPDATE_KIND)),
        topology=weighted_mean(topology),
        update_cost=_update_cost(launches),
    )


def _update_cost(launches: Sequence[Launch]) -> Estimate | None:
    """Update steps minus as many steps of the same collection setting, in ms per optimizer step.

    Collecting steps are the reference where there are any, then ordinary ones, then (for methods
    that need the dense gradient at every step) those.
    """
    references = (COLLECTING_KIND, ORDINARY_KIND, DENSE_GRADIENT_KIND)

    def weights(counts: Mapping[int, int]) -> Mapping[int, float] | None:
        reference = next((kind for kind in references if counts.get(kind)), None)
        if reference is None or not counts.get(UPDATE_KIND):
            return None
        share = counts[UPDATE_KIND] / sum(counts.values())
        return {UPDATE_KIND: share, reference: -share}

    return weighted_mean(launches, weights, log_scale=False)


# ----------------------------------------------------------------------- counts


def _values(runs: Iterable[Run], column: str) -> list[float]:
    return [run[column] for run in runs if run[column] is not None]


def column_range(runs: Iterable[Run], column: str) -> Range | None:
    """Of one column of the runs; None where no run has it."""
    return _range_of([run[column] for run in runs])


def _range_of(values: Iterable[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return Range(min(known), max(known), float(np.mean(known))) if known else None


def _per_image(runs: Sequence[Run], column: str) -> Range | None:
    return _range_of(
        run[column] / (run["total_steps"] * run["batch_size"]) for run in runs if run[column]
    )


def _active_during(runs: Sequence[Run]) -> tuple[int, int] | None:
    low, high = _values(runs, "active_parameters_min"), _values(runs, "active_parameters_max")
    return (int(min(low)), int(max(high))) if low and high else None


def worst_budget_ratio(runs: Sequence[Run]) -> float | None:
    """active / budget of the run that is furthest from its budget."""
    ratios = [
        run["active_parameters"] / run["budget_parameters"]
        for run in runs
        if run["active_parameters"] is not None and run["budget_parameters"]
    ]
    return max(ratios, key=lambda ratio: abs(ratio - 1), default=None)


def by_seed(runs: Sequence[Run], column: str) -> dict[int, float]:
    """Mean over the launches of each seed: repeating a seed gives no new training outcome."""
    return by_value(runs, lambda run: run[column])


def by_value(runs: Sequence[Run], value_of: Callable[[Run], float | None]) -> dict[int, float]:
    """Likewise, of what is no column."""
    values: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        value = value_of(run)
        if value is not None and np.isfinite(value):
            values[run["seed"]].append(value)
    return {seed: float(np.mean(values[seed])) for seed in sorted(values)}


def _transfers(runs: Sequence[Run], records: Records) -> Transfers:
    ids = {run["run_id"] for run in runs}
    reasons: Counter[Any] = Counter(
        update["skip_reason"] or "no reason recorded"
        for update in records.updates
        if update["run_id"] in ids and update["executed"] is False
    )
    return Transfers(
        executed_heads=column_range(runs, "executed_head_transfers"),
        scheduled_heads=column_range(runs, "scheduled_head_transfers"),
        executed_channels=column_range(runs, "executed_channel_transfers"),
        scheduled_channels=column_range(runs, "scheduled_channel_transfers"),
        skipped=column_range(runs, "skipped_transfers"),
        updates=column_range(runs, "executed_updates"),
        skip_reasons=dict(reasons.most_common()),
    )
