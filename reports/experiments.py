"""The named experiments: which tables and pictures the report of each one adds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reports import (
    experiment_budgets,
    experiment_finetune,
    experiment_main,
    experiment_random,
    experiment_settings,
    experiment_static,
    experiment_step_time,
    experiment_transfers,
)
from reports.experiment_family import Family, Study, family_of
from reports.picture import Picture
from reports.table import Table

PREFIX = "experiment_"
"""Every file that an experiment adds to a report begins so."""
SMALL = (
    "Scale small: digits and small models show that the pipeline works; they replicate nothing of "
    "what was published."
)


def _no_pictures(family: Family) -> Iterable[Picture]:
    return ()


@dataclass(frozen=True)
class Experiment:
    """What its report shows, for people, and how."""

    shows: str
    tables: Callable[[Family], Sequence[Table]]
    pictures: Callable[[Family], Iterable[Picture]] = _no_pictures


_FINETUNE = Experiment(
    "accuracy after equal epochs and at matched compute (the paper's Figure 5)",
    experiment_finetune.tables,
    experiment_finetune.pictures,
)

EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "accuracy of all methods by density and task; budgets and transfers of BARTER (the paper's "
        "Table 3); BARTER against its own initial allocation (Tables 13 to 15)",
        lambda family: [
            *experiment_main.tables(family),
            *experiment_budgets.tables(family),
            *experiment_static.tables(family),
        ],
        experiment_main.pictures,
    ),
    "settings": Experiment(
        "the training settings (the paper's Table 5)", experiment_settings.tables
    ),
    "finetune": _FINETUNE,
    "matched-compute": _FINETUNE,
    "step-time": Experiment(
        "step time of all methods (the paper's Figure 7)", experiment_step_time.tables
    ),
    "random-selection": Experiment(
        "BARTER with receiver or donor drawn at random", experiment_random.tables
    ),
    "transfers": Experiment(
        "BARTER with more transfers (the paper's Tables 16 and 17)",
        experiment_transfers.tables,
        experiment_transfers.pictures,
    ),
}


@dataclass(frozen=True)
class Part:
    """What an experiment adds to its study's report."""

    head: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Iterable[Picture] = ()


def part_of(study: Study) -> Part:
    """Nothing for a study that belongs to no experiment. Raises UsageError for a damaged
    `experiment.json`."""
    family = family_of(study)
    if family is None:
        return Part()
    experiment = EXPERIMENTS.get(family.experiment)
    if experiment is None:
        known = ", ".join(EXPERIMENTS)
        return Part([f"Experiment {family.experiment} is none that has tables here ({known})."])
    tables = [t for t in experiment.tables(family) if any(s.rows for s in t.sections)]
    return Part(_head(family, experiment), tables, experiment.pictures(family))


def _head(family: Family, experiment: Experiment) -> list[str]:
    names = ", ".join(f"{stage} ({study})" for stage, study in family.names.items())
    lines = [
        f"Experiment {family.experiment}, scale {family.scale}, stage {family.stage}: "
        f"{experiment.shows}. Its stages and studies: {names}."
    ]
    lines += [SMALL] if family.scale == "small" else []
    return [*lines, *(f"Missing, {reason}." for reason in family.missing)]
