"""What every contender's topology promises, beside what its runs cost, over dense of its setting.

Two promises are made of a sparse model: that it needs fewer MACs, so that time should shrink in
proportion, and fewer parameters, so that the bytes of all that is kept per parameter should.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.contenders import Setting
from reports.load import COLLECTING_KIND, DENSE_GRADIENT_KIND, ORDINARY_KIND, UPDATE_KIND
from reports.marks import Mark, mark_of
from reports.segment_counts import kind_of
from reports.side_by_side import Comparison
from reports.speedups import dense_reference, why_not
from reports.statistics import Estimate, ratio
from reports.summary import Range, Summary
from reports.summary_time import TimedContender
from reports.table_parts import by_setting

BYTES_PER_NUMBER = 4
"""Parameters, their gradients and Adam's moments are float32, under autocast too."""
NOMINAL_NUMBERS = {"parameters": 1, "gradients": 1, "optimizer_state": 2}
"""Part of memory -> numbers in it per active parameter, as a density is commonly read as bytes."""
LEAST_PROMISE = 0.005
"""Of a smaller saving, as a fraction of dense, no share is stated: it would be noise."""


@dataclass(frozen=True)
class Account:
    """One contender of a setting. Ratios are its own cost over that of dense; None: unknown."""

    facts: Summary
    dense: Summary | None  # None also for a contender that is in no ratio
    mean_ms: Estimate | None
    dense_ms: float | None
    time: Estimate | None
    kinds_ms: Mapping[int, Estimate] = field(default_factory=dict)
    """Kind of step -> its mean, where single steps of it were timed."""

    @property
    def mark(self) -> Mark | None:
        return mark_of(self.facts.contender)

    @property
    def is_dense(self) -> bool:
        return self.facts is self.dense

    @property
    def ideal(self) -> float | None:
        """MACs that the topology would need, over those that dense executes."""
        return _over(self.facts.macs_ideal, self.dense and self.dense.macs_training)

    @property
    def executed(self) -> float | None:
        return _over(self.facts.macs_training, self.dense and self.dense.macs_training)

    @property
    def nominal(self) -> float | None:
        """Active parameters: bytes in proportion to them, per parameter alike, cancel out."""
        return _over(self.facts.active, self.dense and self.dense.active)

    @property
    def peak(self) -> float | None:
        """Largest peak over largest peak, of one source."""
        mine, dense = self.facts, self.dense
        if dense is None or mine.memory_sources != dense.memory_sources:
            return None
        if not mine.peak_allocated or not dense.peak_allocated:
            return None
        return mine.peak_allocated.high / dense.peak_allocated.high

    def in_proportion_ms(self, share: float | None) -> float | None:
        """Dense's mean step, were time to follow that share of its MACs."""
        return None if share is None or self.dense_ms is None else share * self.dense_ms

    def nominal_bytes(self, part: str) -> float | None:
        """None of a part that no density is turned to."""
        if self.facts.active is None or part not in NOMINAL_NUMBERS:
            return None
        return self.facts.active.mean * NOMINAL_NUMBERS[part] * BYTES_PER_NUMBER


Book = tuple[Setting, Sequence[Account]]


def trained(summaries: Sequence[Summary]) -> list[Book]:
    """Of runs in full, every setting."""
    books = []
    for setting, here in by_setting(summaries):
        dense = dense_reference(here, setting)
        books.append((setting, [_trained(summary, dense) for summary in here]))
    return books


def timed(comparisons: Sequence[Comparison]) -> list[Book]:
    """Of contenders side by side, every setting."""
    return [
        (comparison.setting, [_timed(contender, comparison) for contender in comparison.contenders])
        for comparison in comparisons
    ]


def realised_percent(
    promised: float | None, real: float | Estimate | None
) -> float | Estimate | None:
    """How much of a promised saving came true, from both costs as ratios to dense; with an
    interval where the real one has one."""
    if promised is None or real is None or 1 - promised < LEAST_PROMISE:
        return None

    def of(cost: float) -> float:
        return 100 * (1 - cost) / (1 - promised)

    if not isinstance(real, Estimate):
        return of(real)
    ends = {"low": real.high, "high": real.low}  # what costs more has saved less
    ends = {end: None if cost is None else of(cost) for end, cost in ends.items()}
    return Estimate(of(real.value), **ends, runs=real.runs, steps=real.steps, log_scale=False)


def _trained(summary: Summary, dense: Summary | None) -> Account:
    times = summary.times
    kinds = {
        ORDINARY_KIND: times.ordinary,
        COLLECTING_KIND: times.collecting,
        DENSE_GRADIENT_KIND: times.dense_gradient,
        UPDATE_KIND: times.update,
    }
    comparable = dense if summary.contender.valid else None
    time = None
    if comparable and not why_not(summary, comparable) and times.mean and comparable.times.mean:
        time = ratio(numerator=times.mean, denominator=comparable.times.mean)
    return Account(
        facts=summary,
        dense=comparable,
        mean_ms=times.mean,
        dense_ms=dense.times.mean.value if dense and dense.times.mean else None,
        time=time,
        kinds_ms={kind: mean for kind, mean in kinds.items() if mean},
    )


def _timed(contender: TimedContender, comparison: Comparison) -> Account:
    dense = comparison.dense
    valid = contender.facts.contender.valid
    pair = comparison.pair(contender, dense) if dense else None
    return Account(
        facts=contender.facts,
        dense=dense.facts if dense and valid else None,
        mean_ms=contender.mean,
        dense_ms=dense.mean.value if dense and dense.mean else None,
        time=pair.judged.ratio if pair else None,
        # Windows are several steps, and final widths are not those that a prediction is made of.
        kinds_ms={
            kind_of(times.part.name.split("+")): times.mean
            for times in contender.segments
            if times.mean and not times.part.is_window and not times.part.final_widths
        },
    )


def _over(mine: Range | None, dense: Range | None) -> float | None:
    return mine.mean / dense.mean if mine and dense and dense.mean else None
