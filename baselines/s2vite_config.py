"""Hyperparameters of S2ViTE, apart from the code that needs torch."""

from dataclasses import dataclass
from math import ceil, cos, pi

from baselines.config import LEAN, OFFICIAL
from methods.config import Config, require_one_of
from methods.rounding import exact, round_half_up


@dataclass(frozen=True)
class S2viteConfig(Config):
    """Defaults are the published code's (baselines page, section 7) but for the interval."""

    update_frequency: int = 0
    """Steps between two updates; 0 derives it from the length of the run (`interval`)."""
    update_fraction: float = 0.01
    """Derived interval as a fraction of the run: 15,000 of 1.5 million steps (chosen)."""
    minimum_interval: int = 100
    """Smallest derived interval of a run that is long enough: the code's default (chosen)."""
    minimum_updates: int = 10
    """Updates that a derived interval leaves room for, in however short a run (chosen)."""
    t_end: float = 0.8
    """Fraction of the run from which on the topology stays."""
    initial_rate: float = 0.5
    """Share of a block's active units that the first updates drop."""
    rate_floor: float = 0.005
    """Where the cosine would end at the last step of the run."""
    overhead: str = LEAN
    """`lean`: what the decisions need. `official`: the same decisions with the published code's
    additional passes and synchronisations."""

    def __post_init__(self) -> None:
        require_one_of(self, "overhead", LEAN, OFFICIAL)
        if self.update_frequency < 0:
            raise ValueError(f"update_frequency is {self.update_frequency}, below 0")
        for name in ("minimum_interval", "minimum_updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, below 1")
        for name in ("update_fraction", "t_end", "initial_rate"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, not in (0, 1]")
        if not 0 <= self.rate_floor <= self.initial_rate:
            raise ValueError(f"rate_floor is {self.rate_floor}, not in [0, initial_rate]")

    def interval(self, total_steps: int) -> int:
        """Steps between two updates of a run of `total_steps`.

        Derived (chosen): a hundredth of the run but at least 100 steps; less where that would
        leave fewer than ten updates before `t_end`.
        """
        if self.update_frequency:
            return self.update_frequency
        wanted = max(
            round_half_up(exact(self.update_fraction) * total_steps), self.minimum_interval
        )
        widest = ceil(exact(self.t_end) * total_steps / self.minimum_updates) - 1
        return max(1, min(wanted, widest))

    def update_steps(self, total_steps: int) -> range:
        """The optimizer steps (1-based) after which the topology changes."""
        interval = self.interval(total_steps)
        return range(interval, ceil(exact(self.t_end) * total_steps), interval)

    def death_rate(self, step: int, total_steps: int) -> float:
        """Share of a block's active units dropped after `step` optimizer steps (page, section 1):
        a cosine over the whole run, so at the last update it is still above its floor."""
        swing = (self.initial_rate - self.rate_floor) / 2
        return self.rate_floor + swing * (1 + cos(pi * step / total_steps))
