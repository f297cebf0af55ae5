"""What a study asks for, and the runs that it is made of. No torch: every wrong request is
refused here, before anything is loaded.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from typing import Any

from bench.contender_label import ContenderLabel, parse_label
from bench.errors import UsageError
from bench.execution import DEFAULT, Execution
from bench.method_options import Options, method_config
from bench.method_registry import get_method
from bench.modes import MODES, TRAIN
from bench.run_spec import RunSpec
from bench.workloads.recipes import Recipe
from bench.workloads.registry import Workload, get_workload
from methods.budget import BudgetError, unit_budget
from methods.config import Config

REAL, SYNTHETIC = "real", "synthetic"


MOST_STEPS = 10_000_000
"""Thirty times the longest published schedule."""


@dataclass(frozen=True)
class Grid:
    """Every contender at every density with every seed, all executed alike."""

    methods: tuple[str, ...]
    """Labels of contenders: `rigl`, `rigl:interval=4`."""
    densities: tuple[float, ...]
    seeds: tuple[int, ...]
    execution: Execution = DEFAULT
    learning_rate: float | None = None
    """Peak in place of the recipe's."""
    rate_factor: float = 1.0
    """Of the recipe's peak, where none is given: what a search for learning rates varies."""

    @property
    def contenders(self) -> list[ContenderLabel]:
        return [parse_label(label) for label in self.methods]

    def check(self) -> None:
        """Raise UsageError for an empty axis, an unknown contender, or an impossible seed or
        execution."""
        axes = ((self.methods, "method"), (self.densities, "density"), (self.seeds, "seed"))
        for values, what in axes:
            if not values:
                raise UsageError(f"a study needs at least one {what}")
        for seed in self.seeds:
            if not 0 <= seed < 2**32:
                raise UsageError(f"seed {seed} is outside 0 to {2**32 - 1}")
        _ = self.contenders
        rate = self.learning_rate
        if rate is not None and not (isfinite(rate) and rate > 0):
            raise UsageError(f"--learning-rate {rate:g}: a number above 0 it must be")
        self.execution.check()


@dataclass(frozen=True)
class StudySpec:
    """What one study compares: the runs of its grids, each once; the rest is shared."""

    name: str
    workloads: tuple[str, ...]
    grids: tuple[Grid, ...]
    steps: int | None = None
    """Length of the schedule in place of the workload's own."""
    batch_size: int | None = None
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `mps`; resolved before runs are made."""
    gpu: str | None = None
    options: Options = field(default=())
    mode: str = TRAIN
    data: str | None = None
    """`real`: from the data sets that the workloads are made for; None: what needs none."""
    datasets: tuple[str, ...] = ()
    """Name and content of each data set (`Decoded.identity`); known once it was found."""
    init_from: str | None = None
    """Study of the dense runs whose selected models are fine-tuned, seed by seed, or the folder of
    one checkpoint for all."""
    continue_from: str | None = None
    """Study whose compact runs go on, each from its end, until they have cost what dense ones
    do."""
    rates: tuple[tuple[str, str, float], ...] = ()
    """Workload, method and the peak learning rate that a search chose for them."""

    def check(self, to_run: bool = True) -> None:
        """Raise UsageError, in one line, for anything that no run could be made of.

        Args:
            to_run: a plan costs nothing, so it may be of a full schedule on synthetic data.
        """
        for values, what in ((self.workloads, "workload"), (self.grids, "grid")):
            if not values:
                raise UsageError(f"a study needs at least one {what}")
        if self.mode not in MODES:
            raise UsageError(f"--mode is {self.mode!r}: {' or '.join(MODES)} it must be")
        if self.init_from and self.mode != TRAIN:
            raise UsageError(f"--init-from: mode {self.mode} times steps, whatever the weights are")
        if self.steps is not None and not 1 <= self.steps <= MOST_STEPS:
            raise UsageError(f"--steps {self.steps}: a run has 1 to {MOST_STEPS:,} steps")
        for grid in self.grids:
            grid.check()
        for name, options in self.options:
            method_config(get_method(name), options, None)
        for name in self.workloads:
            workload = get_workload(name)
            workload.steps_per_epoch(self.batch_size)  # refuses a batch larger than the data
            if self.data == REAL:
                _check_real(workload, self.batch_size, self.mode)
            trains = to_run and self.mode == TRAIN and self.data != REAL
            if trains and workload.data == "synthetic" and self.steps is None:
                raise UsageError(
                    f"{name} has synthetic batches, which can be timed but teach nothing: say how"
                    f" many of the full schedule's {workload.total_steps(self.batch_size):,} steps"
                    " to time, e.g. --steps 20"
                )
            for grid in self.grids:
                grid.execution.check_for(workload)
                for contender in grid.contenders:
                    self.config(contender, workload)  # inline and table options together
                sparse = any(contender.method.sparse for contender in grid.contenders)
                for density in grid.densities:
                    _check_density(workload, density, sparse)

    @property
    def method_names(self) -> set[str]:
        """The methods of all grids, without the options of their labels."""
        return {c.method.name for grid in self.grids for c in grid.contenders}

    def shared(self) -> dict[str, Any]:
        """The settings that all runs under one study name must have in common."""
        own = {"grids", "name", "options", "rates"}
        return {k: v for k, v in json.loads(self.to_json()).items() if k not in own}

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def runs(self) -> list[RunSpec]:
        """The runs, each once, seed by seed, so that slow drift of the machine spreads over the
        methods."""
        chosen = []
        for seed in dict.fromkeys(seed for grid in self.grids for seed in grid.seeds):
            grids = [grid for grid in self.grids if seed in grid.seeds]
            for workload in map(get_workload, self.workloads):
                for grid in grids:
                    for contender in grid.contenders:
                        for density in grid.densities if contender.method.sparse else (1.0,):
                            run = self._run(workload, contender, density, seed, grid)
                            chosen.append(run)
        return list(dict.fromkeys(chosen))

    def config(self, contender: ContenderLabel, workload: Workload) -> Config:
        """A contender's hyperparameters on a workload: what its label says, then what the study
        says of its method, then defaults.

        Raises:
            UsageError: values that the method does not take together.
        """
        method = contender.method
        options = dict(dict(self.options).get(method.name, ())) | dict(contender.options)
        return method_config(method, options.items(), workload)

    def _run(
        self,
        workload: Workload,
        contender: ContenderLabel,
        density: float,
        seed: int,
        grid: Grid,
    ) -> RunSpec:
        return RunSpec(
            workload=workload.name,
            method=contender.method.name,
            density=density,
            seed=seed,
            total_steps=self.steps or workload.total_steps(self.batch_size),
            batch_size=self.batch_size or workload.recipe.batch_size,
            device=self.device,
            recipe=self._recipe(workload, contender.method.name, grid),
            config=self.config(contender, workload),
            gpu=self.gpu,
            execution=grid.execution.on(workload, self.device),
            mode=self.mode,
            dataset=next((d for d in self.datasets if d.split(":")[0] == workload.dataset), None),
        )

    def _recipe(self, workload: Workload, method: str, grid: Grid) -> Recipe:
        """The workload's, with the learning rate that the grid or else a search says."""
        found = {(task, name): rate for task, name, rate in self.rates}
        searched = found.get((workload.name, method), workload.recipe.learning_rate)
        rate = grid.learning_rate or searched * grid.rate_factor
        return replace(workload.recipe, learning_rate=rate)


def _check_real(workload: Workload, batch_size: int | None, mode: str) -> None:
    if mode != TRAIN:
        raise UsageError(f"--data real: mode {mode} measures steps alone, on synthetic batches")
    size = batch_size or workload.recipe.batch_size
    if workload.dataset and workload.recipe.augmentation.mixing and size % 2:
        raise UsageError(f"batch size {size}: the recipe of {workload.name} mixes pairs of images")


def _check_density(workload: Workload, density: float, sparse: bool) -> None:
    if not 0 < density <= 1:
        raise UsageError(f"density {density:g} is outside (0, 1]")
    if sparse:
        try:
            unit_budget(workload.shape.blocks, density)
        except BudgetError as error:
            raise UsageError(f"{workload.name}: {error}") from error
