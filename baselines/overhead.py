"""What RigL and SRigL do beyond their decisions, and how they multiply by masks: the lean form, in
which nothing is done beyond them. `baselines.rigl_official` has the other one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from methods.masks import SparseWeight, multiply


class Overhead:
    """The null overhead. Subclasses may cost more, but never change a mask or a weight."""

    masks_in_backward: bool = False
    """Whether gradients come out of backward masked already."""

    def close(self) -> None:
        """Stop to observe the weights; no hook stays behind."""

    def expect(self, dense: bool) -> None:
        """Before a step: whether its dense gradients will be asked for."""

    def take_dense_gradient(self, weight: SparseWeight) -> Tensor | None:
        """This step's gradient before masking, of the whole minibatch; None where backward did
        not reach the weight. Asked for once."""
        return weight.parameter.grad

    def before_masks(self) -> None:
        """Before weights and momentum are masked."""

    def multiply(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Tensors times masks, in place."""
        multiply(pairs)

    def update(self, weight: SparseWeight, mask: Tensor, gradient: Tensor) -> None:
        """Before `weight.mask` becomes `mask`, which was decided by the dense `gradient`."""

    def after_update(self) -> None:
        """When all weights have their new masks."""

    def tensors(self) -> tuple[Tensor, ...]:
        """What is kept on the device."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, to be merged into the method's own state."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it from the method's state."""
