"""Hyperparameters of the methods, apart from the code that needs torch: the command line checks
them without loading it. Every default is the published rule or, where none is published, marked
as chosen.
"""

from dataclasses import dataclass

from methods.schedule import Window

RANDOM, MAGNITUDE = "random", "magnitude"

MAX_TRANSFER_MULTIPLIER = 100
"""The paper goes to 6; at 100 every unit of a model would move several times."""


@dataclass(frozen=True)
class Config:
    """Hyperparameters of a method; a subclass's __post_init__ raises ValueError on bad ones."""


@dataclass(frozen=True)
class CompactConfig(Config):
    initial_units: str = RANDOM
    """Which dense units are kept: `random` (uniform by the run's seed, chosen) or `magnitude`."""
    fan_in: str = "dense"
    """`dense`: kept tensors have the dense model's scale (chosen). `compact`: output weights are
    scaled by sqrt(dense width / width), as if initialised for the compact fan-in."""

    def __post_init__(self) -> None:
        require_one_of(self, "initial_units", RANDOM, MAGNITUDE)
        require_one_of(self, "fan_in", "dense", "compact")


@dataclass(frozen=True)
class MaskedConfig(Config):
    distribution: str = "uniform"
    """How the density is spread over the masked matrices: `uniform` (equal budgets, chosen),
    `erk` (integer counts: google-research, condensed-sparsity) or `erk-float` (ITOP, SViTE)."""

    def __post_init__(self) -> None:
        require_one_of(self, "distribution", "uniform", "erk", "erk-float")


@dataclass(frozen=True)
class BarterConfig(CompactConfig):
    beta: float = 0.99
    """Decay of the running scores (paper)."""
    window_start: float = 0.1
    """Fraction of the run after which transfers begin (paper)."""
    window_end: float = 0.4
    """Fraction of the run after which the topology stays (paper)."""
    transfer_multiplier: float = 1.0
    """Scales the published number of transfers (paper, Table 16: 1 to 6)."""
    noise_scale: float = 1e-3
    """Split noise over the root mean square of the parent's output weights (chosen)."""
    clone_state: str = "zero"
    """Optimizer moments of parent and copy: `zero` (paper) or `inherit`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "clone_state", "zero", "inherit")
        if not 0 <= self.beta < 1:
            raise ValueError(f"beta is {self.beta}, not in [0, 1)")
        if not 0 <= self.window_start < self.window_end <= 1:
            raise ValueError(
                f"window is {self.window_start} to {self.window_end}, not 0 <= start < end <= 1"
            )
        if not 0 < self.transfer_multiplier <= MAX_TRANSFER_MULTIPLIER:
            raise ValueError(
                f"transfer_multiplier is {self.transfer_multiplier},"
                f" not in (0, {MAX_TRANSFER_MULTIPLIER}]"
            )
        if not 0 <= self.noise_scale <= 1:
            raise ValueError(f"noise_scale is {self.noise_scale}, not in [0, 1]")

    @property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)


def require_one_of(config: Config, field: str, *values: str) -> None:
    """Raise ValueError unless the field holds one of `values`."""
    if getattr(config, field) not in values:
        raise ValueError(f"{field} is {getattr(config, field)!r}, not {' or '.join(values)}")
