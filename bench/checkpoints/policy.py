"""Which runs are checkpointed, and how often. No torch."""

from dataclasses import dataclass

from bench.errors import UsageError
from bench.run_spec import RunSpec
from bench.workloads.registry import get_workload

SHORT_STEPS = 1000
"""Schedules up to this length are not checkpointed unless asked for (chosen): the demo's runs are
over in seconds, and repeating one costs less than writing it down."""


@dataclass(frozen=True)
class Checkpointing:
    """What the command line asks for; no part of a run's identity, as it changes no result.

    Raises UsageError for an interval below 0.
    """

    every: int | None = None
    """Steps between two checkpoints, 0 for none; None: one at each evaluation of a long run."""
    keep: bool = False
    """Whether the final and the selected checkpoint outlive a run that succeeded."""

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 0:
            raise UsageError(
                f"--checkpoint-every {self.every}: a number of steps, or 0 for none, it must be"
            )

    def interval(self, spec: RunSpec) -> int:
        """Steps between two checkpoints of a run; 0 for none."""
        if self.every is not None:
            return self.every
        if spec.total_steps <= SHORT_STEPS:
            return 0
        return get_workload(spec.workload).eval_interval(spec.batch_size)

    def due(self, spec: RunSpec, step: int) -> bool:
        """Whether a checkpoint is due after this step (from 1)."""
        interval = self.interval(spec)
        if step == spec.total_steps:
            return self.keep or interval > 0
        return interval > 0 and step % interval == 0
