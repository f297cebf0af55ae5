"""What a run's process tells the one that watches it. No torch: the watcher unpickles this, and
loading torch there would take a processor from the step that is being timed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    step: int
    total_steps: int
    loss: float
    """Of the step's minibatch."""
    validation_top1_percent: float | None
    """At the last evaluation; None before the first."""
    training_flops: float = 0.0
    """Spent until then, forward plus backward, those of a run that is continued included."""


@dataclass(frozen=True)
class Refusal:
    """The run cannot go on from what it found, and leaves everything as it is."""

    reason: str
    """One line, for the user."""
