"""SRigL: RigL with the same number of inputs for every living output unit
(baselines page, section 4).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from baselines.config import SRigLConfig
from baselines.constant_fan_in import Ablation, update_fan_in
from baselines.gradient_grown import GradientGrown
from baselines.srigl_official import SRigLOverhead
from methods.budget import BudgetError
from methods.chance import numpy_generator
from methods.config import Config
from methods.density import connection_capacity, constant_fan_in
from methods.invariant import AT_MOST
from methods.masks import SparseWeight


class SRigL(GradientGrown):
    """Constant fan-in; rows may be ablated, and then the others share their connections.

    With ablation the device alone knows how many rows live: `active_parameters` reads it, and
    events name the nominal number dropped and grown.
    """

    name = "srigl"
    config_type: ClassVar[type[Config]] = SRigLConfig
    config: SRigLConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    budget_invariant = AT_MOST

    @property
    def ablation(self) -> Ablation | None:
        if not self.config.ablation or self.config.gamma == 0:
            return None
        return Ablation(self.config.gamma, self.config.ablation_fan_in == "sparse")

    def official_overhead(self) -> SRigLOverhead:
        return SRigLOverhead(self, self.ablation is not None)

    def _start_mask(self, name: str, parameter: nn.Parameter, sparsity: float) -> Tensor:
        """Random inputs per row.

        Raises:
            BudgetError: the density buys less than one connection per row.
        """
        rows, columns = parameter.shape
        try:
            fan_in = constant_fan_in(rows, parameter.numel(), sparsity)
        except BudgetError as error:
            raise BudgetError(f"srigl: {name}: {error}") from error
        generator = numpy_generator(self.context.seed, "start mask", name)
        order = torch.from_numpy(generator.random((rows, columns)).argsort(1, kind="stable"))
        mask = torch.zeros(rows, columns, dtype=torch.bool)
        return mask.scatter_(1, order[:, :fan_in], True)

    def allowed_entries(self, weight: SparseWeight) -> int:
        """What its rows may share; the remainder of an equal division is lost."""
        return connection_capacity(weight.mask.numel(), weight.sparsity)

    def rewire(self, weights: Sequence[SparseWeight], step: int) -> list[tuple[int, int]]:
        fraction, ablation = self.schedule.fraction(step), self.ablation
        changes = []
        for weight in weights:
            capacity = self.allowed_entries(weight)
            update = update_fan_in(
                weight.parameter,
                weight.mask,
                self.dense_gradient(weight),
                fraction,
                capacity,
                ablation,
            )
            self.set_mask(weight, update.mask)
            nominal = int((capacity if ablation else weight.active) * fraction)
            changes.append((nominal, nominal))
        if ablation is not None:
            self.counts_known = False
        return changes
