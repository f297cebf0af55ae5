"""Dense: the null method. A full member whose parts do nothing."""

from methods.base import SparseMethod


class Dense(SparseMethod):
    """The model as it is."""

    name = "dense"
