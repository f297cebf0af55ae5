"""Hyperparameters of the baselines, apart from the code that needs torch.

Defaults are those of the baselines page; what the page calls chosen is marked so here.
"""

from dataclasses import dataclass

from baselines.schedules import CONSTANT, COSINE, COSINE_DECAY
from methods.config import MaskedConfig, require_one_of

AFTER_OPTIMIZER_STEP, REPLACES_OPTIMIZER_STEP = "after_optimizer_step", "replaces_optimizer_step"

LEAN, OFFICIAL = "lean", "official"
"""Values of `overhead`: what the decisions need, or the same decisions with the published code's
additional passes and host synchronisations."""

CONDENSED_SPARSITY = "condensed-sparsity"
"""RigL as the code runs whose overhead the baselines page counts."""


@dataclass(frozen=True)
class RewiringConfig(MaskedConfig):
    """When masks change, and what becomes of the optimizer."""

    interval: int = 100
    """Steps between updates (dT); 0 is one epoch."""
    alpha: float = 0.3
    """Share of a matrix's active entries that the first update drops, before its decay."""
    rate: str = COSINE
    """How `alpha` falls: `cosine` to 0 at the end of updates, `cosine-decay` to 0.005 at the end
    of the run (sparse_learning, ITOP, SViTE) or `constant` (SET authors)."""
    stop: float = 0.75
    """Fraction of the run after which masks stay: no update at or after step int(stop T)."""
    min_updates: int = 10
    """Shorter schedules shorten the interval to have at least so many updates (chosen); 0 never
    does."""
    update_order: str = AFTER_OPTIMIZER_STEP
    """`after_optimizer_step`: every step trains (condensed-sparsity; chosen), or
    `replaces_optimizer_step` (nollied, the RigL authors)."""
    reset_grown_state: bool = False
    """Whether optimizer moments of newly grown entries become 0 (the RigL authors) or stay
    (condensed-sparsity; chosen)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "rate", COSINE, COSINE_DECAY, CONSTANT)
        require_one_of(self, "update_order", AFTER_OPTIMIZER_STEP, REPLACES_OPTIMIZER_STEP)
        _require(self.interval >= 0, f"interval is {self.interval}, below 0")
        _require(0 < self.alpha <= 1, f"alpha is {self.alpha}, not in (0, 1]")
        _require(0 < self.stop <= 1, f"stop is {self.stop}, not in (0, 1]")
        _require(self.min_updates >= 0, f"min_updates is {self.min_updates}, below 0")


@dataclass(frozen=True)
class SetConfig(RewiringConfig):
    rule: str = "exact"
    """What is dropped and how many grow at random. `exact`: the smallest weights, as many as are
    dropped (chosen: RigL with another growth score). `sparse-learning`, `itop`, `set-authors`: as
    those codes; their own schedules are alpha 0.5, 0.5, 0.3, stop 1, rate `cosine-decay`,
    `cosine-decay`, `constant`, and an interval of an epoch, 1500 steps, an epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "rule", "exact", "sparse-learning", "itop", "set-authors")


@dataclass(frozen=True)
class GradientGrownConfig(RewiringConfig):
    dense_gradient_steps: int = 1
    """Steps up to an update whose dense gradients are averaged into its growth score (n)."""
    overhead: str = LEAN
    """`lean` or `official`: the same masks and weights at the published code's cost, for timings
    that can be set beside published ones (baselines page, sections 3 and 4, costs)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "overhead", LEAN, OFFICIAL)
        steps = self.dense_gradient_steps
        _require(steps >= 1, f"dense_gradient_steps is {steps}, below 1")


@dataclass(frozen=True)
class RigLConfig(GradientGrownConfig):
    rule: str = CONDENSED_SPARSITY
    """`condensed-sparsity` and `nollied` (the same exchange; the latter's usage replaces the
    optimizer step) keep an exact count; `itop` and unstructured `svite` drop up to a strict
    threshold and leave gradients unmasked, `svite` leaves fully dense matrices alone. Those two
    have alpha 0.5, rate `cosine-decay` and stop 1 of their own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "rule", CONDENSED_SPARSITY, "nollied", "itop", "svite")
        counted = self.overhead == LEAN or self.rule == CONDENSED_SPARSITY
        _require(counted, f"overhead is 'official', known of rule {CONDENSED_SPARSITY!r} only")


@dataclass(frozen=True)
class SRigLConfig(GradientGrownConfig):
    gamma: float = 0.3
    """Salient entries that a row needs to live: below 1 a fraction of the fan-in, else a count
    (the official default; its ViT configuration has 0.95). 0 ablates nothing."""
    ablation: bool = True
    """Whether rows with too few salient entries lose all connections."""
    ablation_fan_in: str = "sparse"
    """Which fan-in gamma is a fraction of: `sparse` (before ablation) or `dense`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "ablation_fan_in", "sparse", "dense")
        _require(self.gamma >= 0, f"gamma is {self.gamma}, below 0")


@dataclass(frozen=True)
class SnfsConfig(RewiringConfig):
    interval: int = 0
    alpha: float = 0.5
    rate: str = COSINE_DECAY
    stop: float = 1.0
    redistribution: str = "momentum"
    """How regrowth is shared: by mean |momentum| of active entries, or by matrix `size` (what
    sparse_learning calls none)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(self, "redistribution", "momentum", "size")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
