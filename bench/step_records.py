"""The records of a training that is under way, and their form in a checkpoint: columns, since a
long run has as many rows as steps."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.accounting import Kind, pack_kind, unpack_kind
from bench.measure.clock import StepTimes
from bench.run_rows import Row


@dataclass
class StepRecord:
    """One step's record while it grows."""

    flags: tuple[str, ...]
    kind: Kind
    learning_rate: float
    loss: Tensor | float
    active_parameters: int
    """During its forward pass."""
    allocator_peak: tuple[int, int] | None
    times: StepTimes | None = None


def pack_steps(steps: Sequence[StepRecord]) -> dict[str, Any]:
    """Steps whose times and losses were read, as columns; exact."""
    times = [step.times for step in steps if step.times]
    peaks = [step.allocator_peak for step in steps if step.allocator_peak]
    flags, flags_at = _distinct([step.flags for step in steps])
    kinds, kinds_at = _distinct([step.kind for step in steps])
    return {
        "flags": flags,
        "flags_at": flags_at,
        "kinds": [pack_kind(kind) for kind in kinds],
        "kinds_at": kinds_at,
        "learning_rate": _reals([step.learning_rate for step in steps]),
        "loss": _reals([float(step.loss) for step in steps]),
        "active_parameters": torch.tensor([step.active_parameters for step in steps]),
        "allocator_peak": torch.tensor(peaks) if peaks else None,
        "step_ms": _reals([each.step_ms for each in times]),
        "spans": {name: _reals([each.spans[name] for each in times]) for name in times[0].spans},
    }


def unpack_steps(columns: Mapping[str, Any]) -> list[StepRecord]:
    """What `pack_steps` was given."""
    kinds = [unpack_kind(kind) for kind in columns["kinds"]]
    peaks, spans = columns["allocator_peak"], columns["spans"]
    names = list(spans)
    times = zip(
        columns["step_ms"].tolist(),
        zip(*(spans[name].tolist() for name in names), strict=True),
        strict=True,
    )
    return [
        StepRecord(
            columns["flags"][flags_at],
            kinds[kind_at],
            rate,
            loss,
            active,
            peak and tuple(peak),
            StepTimes(step_ms, dict(zip(names, each, strict=True))),
        )
        for flags_at, kind_at, rate, loss, active, peak, (step_ms, each) in zip(
            columns["flags_at"].tolist(),
            columns["kinds_at"].tolist(),
            columns["learning_rate"].tolist(),
            columns["loss"].tolist(),
            columns["active_parameters"].tolist(),
            [None] * len(columns["loss"]) if peaks is None else peaks.tolist(),
            times,
            strict=True,
        )
    ]


def pack_rows(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows that share their keys, as columns."""
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def unpack_rows(columns: Mapping[str, list[Any]]) -> list[Row]:
    """What `pack_rows` was given."""
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _distinct(values: Sequence[Hashable]) -> tuple[list[Any], Tensor]:
    """Each value once, and for every place which one stands there."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), torch.tensor([numbers[value] for value in values])


def _reals(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
