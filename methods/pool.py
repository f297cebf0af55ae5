"""The units of one type through a run: running scores, cooldown, widths, and transfers between
layers (specification, sections 1, 2 and 4). Knows no model: a pool can be driven by numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.schedule import MIN_WIDTH
from methods.scores import GROWTH, PRUNE, layer_spans
from methods.selection import Candidates, Chooser, Skipped, Transfer, select_transfer


class UnitPool:
    """Running scores of all active units of one type, one fixed total over all layers.

    Args:
        unit_type: `head` or `channel`.
        initial_widths, max_widths: units per layer at the start, and in the dense model.
        cooldown_steps: steps for which parent and copy are no donors.
        beta: decay of the running scores.
        like: any tensor with the dtype and device that the scores shall have.
    """

    def __init__(
        self,
        unit_type: str,
        initial_widths: Sequence[int],
        max_widths: Sequence[int],
        cooldown_steps: float,
        beta: float,
        like: Tensor,
    ) -> None:
        self.unit_type = unit_type
        self.initial_widths = tuple(initial_widths)
        self.max_widths = tuple(max_widths)
        self.widths = list(initial_widths)
        self.cooldown_steps = cooldown_steps
        self.beta = beta
        self.scores = torch.zeros(2, sum(initial_widths), dtype=like.dtype, device=like.device)
        # The step from which on a unit may be a donor again.
        self._free_from = [np.zeros(width) for width in initial_widths]

    def observe(self, minibatch: Tensor, scaled: bool = False) -> None:
        """Move the running scores [2, units] towards the minibatch's.

        Args:
            scaled: whether a gradient scaler was at work. Its overflowing steps train nothing,
                so their scores do not count either.
        """
        running = self.scores * self.beta + minibatch * (1 - self.beta)
        if scaled:
            running = torch.where(torch.isfinite(minibatch).all(), running, self.scores)
        self.scores = running

    def in_cooldown(self, step: int) -> list[np.ndarray]:
        """Per layer, a boolean per unit: excluded as donor at `step` (strict, chosen)."""
        return [step < free_from for free_from in self._free_from]

    def attempt(self, step: int, chooser: Chooser) -> Transfer | Skipped:
        """Choose one transfer and account it: scores, cooldown and widths.

        The only host synchronisation of a transfer is the copy of the scores made here.
        """
        rows = self.scores.detach().cpu().numpy().astype(np.float64)
        spans = layer_spans(self.widths)
        candidates = Candidates(
            prune_scores=[rows[PRUNE, span] for span in spans],
            growth_scores=[rows[GROWTH, span] for span in spans],
            in_cooldown=self.in_cooldown(step),
            initial_widths=self.initial_widths,
            max_widths=self.max_widths,
            min_width=MIN_WIDTH[self.unit_type],
        )
        transfer = select_transfer(candidates, chooser)
        if isinstance(transfer, Transfer):
            self.apply(transfer, step)
        return transfer

    def apply(self, transfer: Transfer, step: int) -> None:
        """Drop the donor's scores, share the parent's with its copy, protect both."""
        self.scores = transfer_scores(self.scores, self.widths, transfer)
        receiver, parent = transfer.receiver, transfer.parent
        self._free_from[receiver][parent] = step + self.cooldown_steps
        self._free_from[receiver] = np.append(self._free_from[receiver], step + self.cooldown_steps)
        self._free_from[transfer.donor_layer] = np.delete(
            self._free_from[transfer.donor_layer], transfer.donor_unit
        )
        self.widths[receiver] += 1
        self.widths[transfer.donor_layer] -= 1

    def state_dict(self) -> dict[str, Any]:
        return {
            "widths": list(self.widths),
            "scores": self.scores.clone(),
            "free_from": [free_from.tolist() for free_from in self._free_from],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.widths = list(state["widths"])
        self.scores = state["scores"].to(self.scores, copy=True)
        self._free_from = [np.array(free_from, dtype=float) for free_from in state["free_from"]]


def transfer_scores(scores: Tensor, widths: Sequence[int], transfer: Transfer) -> Tensor:
    """Scores [2, units] after a transfer; `widths` are those before it."""
    layers = [scores[:, span] for span in layer_spans(widths)]
    receiver = layers[transfer.receiver]
    parent, half = transfer.parent, receiver[:, transfer.parent : transfer.parent + 1] / 2
    layers[transfer.receiver] = torch.cat(
        [receiver[:, :parent], half, receiver[:, parent + 1 :], half], 1
    )
    donors, unit = layers[transfer.donor_layer], transfer.donor_unit
    layers[transfer.donor_layer] = torch.cat([donors[:, :unit], donors[:, unit + 1 :]], 1)
    return torch.cat(layers, 1)
