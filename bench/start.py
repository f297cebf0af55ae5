"""Where a run starts from, if not from scratch. No torch."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Literal

FINETUNE, CONTINUE = "finetune", "continue"


@dataclass(frozen=True)
class Start:
    """Another run, whose checkpoint this one begins with.

    `finetune`: from the selected model of a dense run, with a new classifier and optimizer.
    `continue`: from the end of a compact run, its topology fixed (specification, section 7).
    """

    kind: Literal["finetune", "continue"]
    run_id: str
    """The other run's, which stands for all that it was trained with."""
    steps: int = 0
    """Of a run that is continued: optimizer steps that it did."""
    folder: str = field(default="", compare=False)
    """Of the other run's checkpoints on this machine; no part of an identity."""
    training_macs: float = field(default=0.0, compare=False)
    """Of a run that is continued: forward plus backward that it spent; follows from the run."""


def matching_steps(steps: int, dense_macs: int, compact_macs: int) -> int:
    """Further steps after `steps` until the MACs of all reach those of as many dense ones.

    The last epoch may be a partial one, the last step is a whole one.

    Args:
        dense_macs, compact_macs: forward plus backward of one image.
    """
    return ceil(Fraction(steps * (dense_macs - compact_macs), compact_macs))
