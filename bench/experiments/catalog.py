"""The named experiments and their stages (specification, sections 3 and 7 to 9). No torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench.errors import UsageError
from bench.experiments.scales import Scale
from bench.method_options import nearest
from bench.modes import TIME, TRAIN
from bench.spec import Grid, StudySpec

ALL_METHODS = ("dense", "static", "barter", "set", "snfs", "rigl", "srigl", "s2vite")
DENSITIES = (0.1, 0.3, 0.5, 0.7)
MAIN_DENSITY = 0.3
"""Where most seeds are, and where learning rates are searched."""
FINETUNE_DENSITIES = (0.1, 0.3)
"""Of the paper's Figure 5."""
STEP_TIME_DENSITY = 0.5
RANDOM_DENSITY = 0.5
"""Of the paper's step times and of its randomised variants."""
TRANSFERS_DENSITY = 0.3
"""Chosen: the paper does not say at which density it multiplied transfers; `--density` says
another."""
RATE_FACTORS = (1 / 3, 1.0, 3.0)
"""Of the recipe's learning rate: what the search tries for every method."""
MULTIPLIERS = (1, 2, 3, 4, 5, 6)

SEARCH, PRETRAINING, FINETUNED = "learning-rates", "pretraining", "finetune"
MATCHED = "matched-compute"


@dataclass(frozen=True)
class Stage:
    """One study of an experiment."""

    name: str
    home: str
    """The experiment whose tables its report shows."""
    workloads: Callable[[Scale], tuple[str, ...]]
    grids: Callable[[Scale], tuple[Grid, ...]] = lambda scale: ()
    mode: str = TRAIN
    steps: int | None = None
    batch_size: Callable[[Scale], int | None] = lambda scale: None
    tuned: bool = False
    """Whether its runs take the learning rates that a search has found."""
    init_from: str | None = None
    """Stage whose dense models its runs start from."""
    continues: str | None = None
    """Stage whose runs it goes on with; has no grids of its own."""
    keeps_checkpoints: bool = False

    def spec(self, scale: Scale, names: Callable[[str], str]) -> StudySpec:
        """The study, its learning rates apart; `names` gives a stage's study."""
        return StudySpec(
            name=names(self.name),
            workloads=self.workloads(scale),
            grids=self.grids(scale),
            mode=self.mode,
            steps=self.steps,
            batch_size=self.batch_size(scale),
            init_from=names(self.init_from) if self.init_from else None,
        )


@dataclass(frozen=True)
class Experiment:
    summary: str
    """One line, for lists."""
    stages: tuple[Stage, ...]


def _both(scale: Scale) -> tuple[str, ...]:
    return scale.vit, scale.cct


def _search(methods: Sequence[str]) -> Stage:
    def grids(scale: Scale) -> tuple[Grid, ...]:
        of_one = Grid(tuple(methods), (MAIN_DENSITY,), scale.search_seeds)
        return tuple(replace(of_one, rate_factor=factor) for factor in RATE_FACTORS)

    return Stage(SEARCH, "main", _both, grids)


def _main(methods: Sequence[str]) -> Stage:
    def grids(scale: Scale) -> tuple[Grid, ...]:
        others = tuple(density for density in DENSITIES if density != MAIN_DENSITY)
        return (
            Grid(tuple(methods), (MAIN_DENSITY,), scale.seeds),
            Grid(tuple(m for m in methods if m != "dense"), others, scale.few_seeds),
        )

    return Stage("main", "main", _both, grids, tuned=True)


def _settings(scale: Scale) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_both(scale), scale.pretraining, scale.finetuning)))


_PRETRAINING = Stage(
    PRETRAINING,
    FINETUNED,
    lambda scale: (scale.pretraining,),
    lambda scale: (Grid(("dense",), (1.0,), scale.finetune_seeds),),
    keeps_checkpoints=True,
)
_FINETUNE = Stage(
    FINETUNED,
    FINETUNED,
    lambda scale: (scale.finetuning,),
    lambda scale: (Grid(ALL_METHODS, FINETUNE_DENSITIES, scale.finetune_seeds),),
    init_from=PRETRAINING,
    keeps_checkpoints=True,
)
_MATCHED = Stage(MATCHED, MATCHED, lambda scale: (scale.finetuning,), continues=FINETUNED)

EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "accuracy and macro-F1 of all methods by density and task",
        (_search(ALL_METHODS), _main(ALL_METHODS)),
    ),
    "budgets": Experiment(
        "Table 3: budgets, widths and transfers; the part of main that BARTER has",
        (_search(("barter",)), _main(("barter",))),
    ),
    "static": Experiment(
        "Tables 13 to 15: BARTER and its own start; the part of main that these have",
        (_search(("dense", "static", "barter")), _main(("dense", "static", "barter"))),
    ),
    "settings": Experiment(
        "Table 5: every setting of every recipe, and where it comes from",
        (
            Stage(
                "settings",
                "settings",
                _settings,
                lambda scale: (Grid(("dense",), (1.0,), (0,)),),
                steps=2,
                batch_size=lambda scale: scale.settings_batch,
            ),
        ),
    ),
    FINETUNED: Experiment(
        "Figure 5a: fine-tuning from dense models for equal epochs", (_PRETRAINING, _FINETUNE)
    ),
    MATCHED: Experiment(
        "Figure 5b: the same, then compact models until they cost what dense does",
        (_PRETRAINING, _FINETUNE, _MATCHED),
    ),
    "step-time": Experiment(
        "Figure 7: step time of all methods, side by side",
        (
            Stage(
                "step-time",
                "step-time",
                _both,
                lambda scale: (
                    Grid((*ALL_METHODS, "rigl:overhead=official"), (STEP_TIME_DENSITY,), (0,)),
                ),
                mode=TIME,
            ),
        ),
    ),
    "random-selection": Experiment(
        "receiver, donor or both drawn at random",
        (
            Stage(
                "random-selection",
                "random-selection",
                lambda scale: (scale.cct,),
                lambda scale: (
                    Grid(
                        (
                            "barter",
                            "barter-random-receiver",
                            "barter-random-donor",
                            "barter-random-pair",
                        ),
                        (RANDOM_DENSITY,),
                        scale.seeds,
                    ),
                ),
                tuned=True,
            ),
        ),
    ),
    "transfers": Experiment(
        "Tables 16 and 17: 1 to 6 times as many transfers, accuracy and update cost",
        (
            Stage(
                "transfers",
                "transfers",
                lambda scale: (scale.vit,),
                lambda scale: (
                    Grid(
                        tuple(f"barter:transfer_multiplier={m}" for m in MULTIPLIERS),
                        (TRANSFERS_DENSITY,),
                        scale.finetune_seeds,
                    ),
                ),
                tuned=True,
            ),
        ),
    ),
}


def stages_of(name: str) -> tuple[Stage, ...]:
    """The stages of an experiment, or of `all`, each study once.

    Raises:
        UsageError: there is none of that name.
    """
    if name == "all":
        whole = ["main", "settings", MATCHED, "random-selection", "transfers", "step-time"]
        return tuple(stage for each in whole for stage in EXPERIMENTS[each].stages)
    if name not in EXPERIMENTS:
        raise UsageError(f"unknown experiment {name!r}; {nearest(name, [*EXPERIMENTS, 'all'])}")
    return EXPERIMENTS[name].stages


def family(home: str) -> tuple[str, ...]:
    """The stages that a report of an experiment's study looks for."""
    whole = MATCHED if home == FINETUNED else home
    return tuple(stage.name for stage in EXPERIMENTS[whole].stages)
