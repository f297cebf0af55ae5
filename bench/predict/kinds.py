"""Which steps of a schedule differ in cost, and one of each. No torch."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.schema import UPDATE

Flags = tuple[str, ...]

ORDINARY = "ordinary"


@dataclass(frozen=True)
class StepKind:
    """A kind of step by the method's flags, and a step of the schedule (from 1) that is one."""

    flags: Flags
    step: int

    @property
    def name(self) -> str:
        return "+".join(self.flags) or ORDINARY


def step_kinds(flags: Callable[[int], Flags], total_steps: int) -> list[StepKind]:
    """One step of every kind, updates last, as they change the topology.

    Never the first step, in which the optimizer's state comes into being, and none that follows an
    update, unless there is no other of its kind.

    Args:
        flags: of a step, as the method declares them.
    """
    best: dict[Flags, tuple[bool, int]] = {}
    before: Flags = ()
    for step in range(1, total_steps + 1):
        known = flags(step)
        candidate = (step == 1 or UPDATE in before, step)
        best[known] = min(best.get(known, candidate), candidate)
        before = known
    kinds = [StepKind(known, step) for known, (_, step) in best.items()]
    return sorted(kinds, key=lambda kind: (UPDATE in kind.flags, kind.step))
