"""RigL: drop the smallest weights, grow where the dense gradient is largest
(baselines page, section 3).
"""

from typing import ClassVar

from torch import Tensor

from baselines.config import RigLConfig
from baselines.exchange import Exchange
from baselines.gradient_grown import GradientGrown
from baselines.rigl_official import RigLOverhead
from methods.config import Config
from methods.masks import SparseWeight


class RigL(GradientGrown, Exchange):
    """Exact counts in every matrix; unmasked gradients only where the rule has them."""

    name = "rigl"
    config_type: ClassVar[type[Config]] = RigLConfig
    config: RigLConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self.masks_gradients = self.config.rule not in ("itop", "svite")
        self.leaves_full_matrices = self.config.rule == "svite"

    @property
    def rule(self) -> str:
        return self.config.rule

    def official_overhead(self) -> RigLOverhead:
        return RigLOverhead(self)

    def growth_scores(self, weight: SparseWeight, step: int) -> Tensor:
        return self.dense_gradient(weight).abs()
