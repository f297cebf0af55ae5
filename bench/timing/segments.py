"""Which kinds of step a full run has, how often, and where in its schedule they can be replayed.

Nothing is timed here. Steps between topology updates come in kinds, by the method's flags; a kind
may have to be timed twice, at the initial and at the final widths. An update is timed as a window:
the update step and the three after it, in which caches and allocator settle again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from bench.errors import UsageError

WINDOW_STEPS = 4
"""Most steps of an update window: the update and three after it."""
UPDATE = "update"
FINAL = " at final widths"
_UPDATE_PLACES = 8
"""Different updates of the schedule that are replayed in turn, evenly spaced: they may differ in
what they change (a head, a channel) and how much."""

Flags = tuple[str, ...]


@dataclass(frozen=True)
class Segment:
    """One kind of step, or the update windows."""

    name: str
    starts: tuple[int, ...]
    """Steps of the schedule (1-based) from which it is replayed, in turn."""
    length: int
    """Consecutive steps of this kind from every start."""
    share: float
    """Its weight in the mean step: steps of this kind (or updates) per step of the full run."""
    base: tuple[str, ...] = ()
    """Of update windows: the segments whose steps would have stood in the window without it."""
    final_widths: bool = False

    @property
    def is_window(self) -> bool:
        return bool(self.base)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Segment":
        """From a row of the segments table, which does not say where it was replayed from."""
        return cls(
            name=row["segment"],
            starts=(),
            length=row["window_steps"] or 1,
            share=row["share"],
            base=tuple(row["base"] or ()),
            final_widths=bool(row["final_widths"]),
        )


def segments(
    flags: Callable[[int], Flags], total_steps: int, widths_change: bool
) -> tuple[Segment, ...]:
    """The segments of a run of `total_steps` steps, update windows last.

    Args:
        flags: of a step, as the method declares them.
        widths_change: whether the tensors' shapes differ before the first and after the last
            update, so that steps before, between and after have to be told apart. Steps between
            count half at the initial and half at the final widths.

    Raises:
        UsageError: every step is an update.
    """
    all_flags = [flags(step) for step in range(1, total_steps + 1)]
    updates = [step for step, known in enumerate(all_flags, 1) if UPDATE in known]
    if len(updates) == total_steps:
        raise UsageError("every step of this schedule is an update: nothing to compare them with")
    kinds = _base_kinds(all_flags)
    shares: dict[tuple[str, bool], float] = defaultdict(float)
    for step, kind in enumerate(kinds, 1):
        for final, weight in _stages(step, updates, widths_change):
            shares[kind, final] += weight
    found = [
        _steps_segment(kind, final, share / total_steps, all_flags)
        for (kind, final), share in sorted(shares.items())
    ]
    if updates:
        length, places = _windows(updates, total_steps)
        replaced = kinds[places[0] - 1 : places[0] - 1 + length]
        base = tuple(kind + FINAL * ((kind, False) not in shares) for kind in replaced)
        found.append(Segment(UPDATE, places, length, len(updates) / total_steps, base))
    return tuple(found)


def mean_step_ms(parts: Sequence[Segment], means_ms: dict[str, float]) -> float:
    """The schedule-weighted mean step, from each segment's mean (of windows: of whole windows)."""
    return sum(
        part.share * (update_cost_ms(part, means_ms) if part.is_window else means_ms[part.name])
        for part in parts
    )


def mean_step(parts: Sequence[Segment], values: Mapping[str, float]) -> float:
    """The schedule-weighted mean of what every step has, e.g. MACs.

    Args:
        values: of one step of each segment; of windows, of the update step alone.
    """
    return sum(
        part.share * (values[part.name] - (values[part.base[0]] if part.is_window else 0))
        for part in parts
    )


def update_cost_ms(window: Segment, means_ms: dict[str, float]) -> float:
    """What one update adds: its window minus as many steps of the kinds that it replaces."""
    return means_ms[window.name] - sum(means_ms[name] for name in window.base)


def _kind(known: Flags) -> str:
    return "+".join(sorted(flag for flag in known if flag != UPDATE)) or "ordinary"


def _base_kinds(all_flags: Sequence[Flags]) -> list[str]:
    """The kind of every step; of an update step that of the step before it (or else after it),
    which is what would stand in its place."""
    kinds: list[str] = []
    for number, known in enumerate(all_flags):
        if UPDATE not in known:
            kinds.append(_kind(known))
        elif kinds:
            kinds.append(kinds[-1])
        else:
            kinds.append(next(_kind(k) for k in all_flags[number:] if UPDATE not in k))
    return kinds


def _stages(step: int, updates: Sequence[int], widths_change: bool) -> Iterable[tuple[bool, float]]:
    if not widths_change or not updates or step <= updates[0]:
        return ((False, 1.0),)
    return ((True, 1.0),) if step > updates[-1] else ((False, 0.5), (True, 0.5))


def _steps_segment(kind: str, final: bool, share: float, all_flags: Sequence[Flags]) -> Segment:
    """The longest run of consecutive steps of a kind; of several the first, or the last for the
    final widths."""
    runs, step = [], 1
    for is_kind, members in groupby(all_flags, lambda k: UPDATE not in k and _kind(k) == kind):
        length = len(list(members))
        if is_kind:
            runs.append((length, step))
        step += length
    length, start = max(runs, key=lambda run: (run[0], run[1] if final else -run[1]))
    return Segment(kind + FINAL * final, (start,), length, share, final_widths=final)


def _windows(updates: Sequence[int], total_steps: int) -> tuple[int, tuple[int, ...]]:
    """Length and starts of windows with a single update each: shorter ones where updates follow
    each other closely in the whole schedule."""
    for length in range(WINDOW_STEPS, 0, -1):
        free = [
            step
            for step, following in zip(updates, [*updates[1:], total_steps + 1], strict=True)
            if step + length <= following
        ]
        if free:
            return length, _evenly(free)
    raise AssertionError("the last update is a window of its own")


def _evenly(steps: Sequence[int]) -> tuple[int, ...]:
    count = min(_UPDATE_PLACES, len(steps))
    return tuple(steps[(2 * i + 1) * len(steps) // (2 * count)] for i in range(count))
