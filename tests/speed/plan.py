"""What is measured for `docs/performance.md`, and what was aimed at. No torch."""

from dataclasses import dataclass

from bench.execution import Execution
from bench.modes import TIME
from bench.spec import Grid, StudySpec
from bench.workloads.registry import get_workload
from methods.budget import unit_budget

DENSITIES = (0.1, 0.3, 0.5, 0.7)
RIGL_DENSITIES = (0.1, 0.5)
STEPS = 16_875
"""A hundredth of the full schedule at these batch sizes. Kinds of step are what they are in all of
it, and the walk through them takes seconds, not minutes."""

RIGL_GOALS = {0.1: 5.2, 0.5: 1.75}
"""Speed-up of BARTER over masked RigL."""
COLLECTING_GOAL, UPDATE_GOAL = 0.015, 0.02
"""Collecting steps over Static's; one update, in steps."""


@dataclass(frozen=True)
class Model:
    """One of the paper's models, in full size, and the goals for its step time over dense."""

    name: str
    workload: str
    batch_size: int
    goals: dict[float, float]
    stretch: dict[float, float]

    def limit(self, density: float) -> float:
        """F: training MACs over those of the dense model."""
        shape = get_workload(self.workload).shape
        blocks = shape.blocks
        units = unit_budget(blocks, density)
        dense = shape.macs_training(blocks.total_heads, blocks.total_channels)
        return shape.macs_training(units.heads, units.channels) / dense


MODELS = (
    Model(
        "ViT",
        "vit-tiny-imagenet",
        16,
        goals={0.1: 0.19, 0.3: 0.37, 0.5: 0.55, 0.7: 0.74},
        stretch={0.1: 0.14, 0.3: 0.33, 0.5: 0.52, 0.7: 0.71},
    ),
    Model(
        "CCT",
        "cct-cifar100",
        8,
        goals={0.1: 0.18, 0.3: 0.37, 0.5: 0.55, 0.7: 0.74},
        stretch={},
    ),
)


@dataclass(frozen=True, order=True)
class Variant:
    """How all contenders of one table are executed: eager, fused Adam, and these."""

    threads: int = 1
    pad_channels: int = 1

    @property
    def title(self) -> str:
        threads = f"{self.threads} thread" + "s" * (self.threads > 1)
        padded = f", FFN widths padded to multiples of {self.pad_channels}"
        return threads + padded * (self.pad_channels > 1)

    def study(self, model: Model) -> StudySpec:
        """Of one model; goes by this name under the results folder."""
        execution = Execution(threads=self.threads, pad_channels=self.pad_channels)
        name = f"speed-{model.name.lower()}-{self.threads}-thread"
        spec = StudySpec(
            name=name + f"-pad-{self.pad_channels}" * (self.pad_channels > 1),
            workloads=(model.workload,),
            grids=(
                Grid(("dense", "static", "barter"), DENSITIES, (0,), execution),
                Grid(("rigl",), RIGL_DENSITIES, (0,), execution),
            ),
            steps=STEPS,
            batch_size=model.batch_size,
            device="cpu",
            mode=TIME,
        )
        spec.check()
        return spec


VARIANTS = tuple(Variant(threads, pad) for threads in (1, 2) for pad in (1, 16))
