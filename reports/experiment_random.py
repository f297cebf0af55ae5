"""The experiment `random-selection`: BARTER, and its variants that draw units at random."""

from reports.experiment_accuracy import against_barter
from reports.experiment_family import Family
from reports.table import Table

OTHERWISE = (
    "the paper's comparison is of the CCT on CIFAR-100 at density 0.5 alone, and its values are "
    "not in the specification"
)


def tables(family: Family) -> list[Table]:
    title = "BARTER with receiver, donor or both drawn at random"
    return [
        against_barter(family.here, "experiment_random", title, lambda summary: None, OTHERWISE)
    ]
