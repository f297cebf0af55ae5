"""Whole numbers counted in every step, summed up per kind of step: light however long the run."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Count:
    """Of the steps of one kind, or of all: exact, so without an interval."""

    low: int
    high: int
    total: float
    steps: float
    """Not whole where a segment of mode time stands for half of the steps."""

    @property
    def mean(self) -> float:
        return self.total / self.steps


Counts = Mapping[int, Count]
"""Kind of step -> its count; empty where nothing was recorded."""


def count_by_kind(kinds: NDArray[np.int8], values: NDArray[np.float64]) -> Counts:
    """From the kind and the number of every step, shape (n,); NaN is not recorded."""
    if np.isnan(values).any():
        return {}
    return {int(kind): _count(values[kinds == kind]) for kind in np.unique(kinds)}


def _count(values: NDArray[np.float64]) -> Count:
    return Count(int(values.min()), int(values.max()), int(values.sum()), len(values))


def together(counts: Iterable[Count]) -> Count | None:
    """The count of several kinds or runs as if they were one; None of nothing."""
    found = list(counts)
    if not found:
        return None
    return Count(
        min(count.low for count in found),
        max(count.high for count in found),
        sum(count.total for count in found),
        sum(count.steps for count in found),
    )


def over_runs(runs: Iterable[Counts]) -> Counts:
    """The counts of several runs as if they were one."""
    found: dict[int, list[Count]] = defaultdict(list)
    for counts in runs:
        for kind, count in counts.items():
            found[kind].append(count)
    return {kind: merged for kind, several in found.items() if (merged := together(several))}
