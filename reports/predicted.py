"""Predictions of a contender, and what they come to for its whole run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.contenders import Contender, Setting
from reports.predictions import Prediction, is_device
from reports.segment_counts import kind_of
from reports.step_counts import over_runs


@dataclass(frozen=True)
class Whole:
    """Of all kinds of step that a contender's runs had; None: one of them lacks it."""

    device: str
    execution: tuple[tuple[str, Any], ...]
    kinds: int
    peak_allocated_bytes: float | None
    """The largest."""
    step_ms: float | None
    """The mean, each kind as often as the runs had it."""


def of_contender(predictions: Iterable[Prediction], contender: Contender) -> list[Prediction]:
    """Those that are of this contender in its setting, in the file's order."""
    return [
        p
        for p in predictions
        if (p.name, p.density) == (contender.name, contender.density)
        and _of_setting(p, contender.setting)
    ]


def wholes(predictions: Iterable[Prediction], contender: Contender) -> list[Whole]:
    """One for every device, and way of execution, that the contender was predicted for."""
    groups: dict[tuple[Any, ...], list[Prediction]] = defaultdict(list)
    for prediction in of_contender(predictions, contender):
        groups[prediction.device, prediction.execution].append(prediction)
    steps = _steps_of_kinds(contender)
    return [
        Whole(device, execution, len(own), _largest(own, steps), _mean_ms(own, steps))
        for (device, execution), own in groups.items()
    ]


def without_contender(predictions: Sequence[Prediction], contenders: Iterable[Contender]) -> str:
    """How many predictions have nothing measured beside them; empty if all have."""
    used = {p for contender in contenders for p in of_contender(predictions, contender)}
    rest = len(predictions) - len(used)
    if not rest:
        return ""
    return (
        f"Predictions without a measured counterpart: {rest} of {len(predictions)} (by "
        "workload, method, density, batch size, device and execution)."
    )


def _of_setting(prediction: Prediction, setting: Setting) -> bool:
    return (
        prediction.workload == setting["workload"]
        and prediction.batch_size == setting["batch_size"]
        and is_device(prediction.device, setting["device"], setting["device_name"])
        and all(setting[column] == value for column, value in prediction.execution)
    )


def _steps_of_kinds(contender: Contender) -> dict[int, float]:
    """Kind of step -> how often it was timed; in mode time how often the schedule has it."""
    steps: dict[int, float] = defaultdict(float)
    for run in contender.runs:
        for kind, count in zip(*np.unique(run.steps.launch.kinds, return_counts=True), strict=True):
            steps[int(kind)] += float(count)
    if steps:
        return steps
    counted = over_runs(run.steps.peaks for run in contender.runs)
    return {kind: count.steps for kind, count in counted.items()}


def _largest(predictions: Sequence[Prediction], steps: Mapping[int, float]) -> float | None:
    peaks = [p.peak_allocated_bytes for p in predictions if p.peak_allocated_bytes is not None]
    covered = {kind_of(p.flags) for p in predictions if p.peak_allocated_bytes is not None}
    return max(peaks) if peaks and steps.keys() <= covered else None


def _mean_ms(predictions: Sequence[Prediction], steps: Mapping[int, float]) -> float | None:
    """None also where two predictions are of what the records count as one kind."""
    known = [(kind_of(p.flags), p.step_ms) for p in predictions if p.step_ms is not None]
    means = dict(known)
    if not steps or len(means) < len(known) or steps.keys() - means.keys():
        return None
    return sum(means[kind] * n for kind, n in steps.items()) / sum(steps.values())
