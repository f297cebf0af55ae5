"""How a figure of the ledger came about: whether a saving is real is seen at the figure itself."""

from enum import StrEnum
from typing import Any

from reports.contenders import Contender
from reports.table import Marked


class Mark(StrEnum):
    """The value is for CSV, the sign stands after a number."""

    COMPACT = "executed compact"
    MASKS = "simulated by masks"
    PREDICTED = "predicted"

    @property
    def sign(self) -> str:
        return {Mark.COMPACT: "C", Mark.MASKS: "M", Mark.PREDICTED: "P"}[self]


OF_REALISATION = {"compact": Mark.COMPACT, "masked": Mark.MASKS}
"""Value of the column `realisation` -> mark of what such a run did."""
LEGEND = (
    "C, executed compact: tensors are physically as small as the figure says (of dense: as large). "
    "M, simulated by masks: tensors of full size with zeros in them, so an ideal or nominal figure "
    "so marked was never executed. P, predicted: computed, not measured."
)


def mark_of(contender: Contender) -> Mark | None:
    """How its runs were executed; None if they do not say."""
    realisations = {run["realisation"] for run in contender.runs}
    return OF_REALISATION.get(realisations.pop()) if len(realisations) == 1 else None


def marked(value: Any, mark: Mark | None) -> Marked | None:
    """A cell of a column that is `marked`; an empty one of None."""
    if value is None:
        return None
    return Marked(value, mark.sign, mark) if mark else Marked(value, "?", "not recorded")
