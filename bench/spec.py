"""What a study asks for, and the runs that it is made of. No torch: every wrong request is
refused here, before anything is loaded.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from bench.errors import UsageError
from bench.method_registry import MethodInfo, get_method
from bench.workloads.recipes import Recipe
from bench.workloads.registry import Workload, get_workload
from methods.budget import BudgetError, unit_budget
from methods.config import Config

Options = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
"""Per method, its hyperparameters that differ from the defaults; sorted, so order has no effect."""


@dataclass(frozen=True)
class RunSpec:
    """One run: everything that decides its result, and nothing else."""

    workload: str
    method: str
    density: float
    seed: int
    total_steps: int
    batch_size: int
    device: str
    """`cpu`, `cuda` or `mps`."""
    recipe: Recipe
    config: Config
    gpu: str | None = None
    """Model of the GPU; None on other devices."""
    threads: int | None = None
    """Intra-op threads on CPU; None is torch's own choice."""

    @property
    def run_id(self) -> str:
        """Content hash: equal for equal requests, whatever the order of their options."""
        text = json.dumps(identity(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """Full configuration, defaults included."""
        return json.dumps(asdict(self), sort_keys=True, default=sorted)

    @property
    def title(self) -> str:
        """For people: what distinguishes this run within its study."""
        density = "" if self.density == 1 else f" at {self.density:g}"
        return f"{self.method}{density}, seed {self.seed}"


def identity(value: Any) -> Any:
    """`value` as plain JSON that hashes to its identity.

    A field that equals its default is left out. So a new hyperparameter whose default means "no
    effect" leaves old runs their identity. Fields that do not compare (notes) never count.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: identity(getattr(value, f.name))
            for f in fields(value)
            if f.compare and getattr(value, f.name) != _default(f)
        }
    if isinstance(value, tuple | list):
        return [identity(item) for item in value]
    return value


def _default(f: Any) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default


@dataclass(frozen=True)
class StudySpec:
    """What one study compares. Methods, densities and seeds are its axes; the rest is shared."""

    name: str
    workloads: tuple[str, ...]
    methods: tuple[str, ...]
    densities: tuple[float, ...]
    seeds: tuple[int, ...]
    steps: int | None = None
    """Length of the schedule in place of the workload's own."""
    batch_size: int | None = None
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `mps`; resolved before runs are made."""
    gpu: str | None = None
    options: Options = field(default=())

    def check(self, to_run: bool = True) -> None:
        """Raise UsageError, in one line, for anything that no run could be made of.

        Args:
            to_run: a plan costs nothing, so it may be of a full schedule on synthetic data.
        """
        for values, what in (
            (self.workloads, "workload"),
            (self.methods, "method"),
            (self.densities, "density"),
            (self.seeds, "seed"),
        ):
            if not values:
                raise UsageError(f"a study needs at least one {what}")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"--steps {self.steps}: a run needs at least 1 step")
        for seed in self.seeds:
            if not 0 <= seed < 2**32:
                raise UsageError(f"seed {seed} is outside 0 to {2**32 - 1}")
        methods = [get_method(name) for name in self.methods]
        for name in self.workloads:
            workload = get_workload(name)
            workload.steps_per_epoch(self.batch_size)  # refuses a batch larger than the data
            if to_run and workload.data == "synthetic" and self.steps is None:
                raise UsageError(
                    f"{name} has synthetic batches, which can be timed but teach nothing: say how"
                    f" many of the full schedule's {workload.total_steps(self.batch_size):,} steps"
                    " to time, e.g. --steps 20"
                )
            for density in self.densities:
                _check_density(workload, density, any(method.sparse for method in methods))
        for name, options in self.options:
            method_config(get_method(name), options, None)

    def shared(self) -> dict[str, Any]:
        """The settings that all runs under one study name must have in common."""
        axes = {"methods", "densities", "seeds", "name", "options"}
        return {k: v for k, v in json.loads(self.to_json()).items() if k not in axes}

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def runs(self) -> list[RunSpec]:
        """The runs, seed by seed, so that slow drift of the machine spreads over the methods."""
        chosen = []
        for seed in self.seeds:
            for workload in map(get_workload, self.workloads):
                for method in map(get_method, self.methods):
                    for density in self.densities if method.sparse else (1.0,):
                        chosen.append(self._run(workload, method, density, seed))
        return list(dict.fromkeys(chosen))

    def config(self, method: MethodInfo, workload: Workload) -> Config:
        """The hyperparameters that the study gives a method on a workload."""
        return method_config(method, dict(self.options).get(method.name, ()), workload)

    def _run(self, workload: Workload, method: MethodInfo, density: float, seed: int) -> RunSpec:
        return RunSpec(
            workload=workload.name,
            method=method.name,
            density=density,
            seed=seed,
            total_steps=self.steps or workload.total_steps(self.batch_size),
            batch_size=self.batch_size or workload.recipe.batch_size,
            device=self.device,
            recipe=workload.recipe,
            config=self.config(method, workload),
            gpu=self.gpu,
            threads=workload.cpu_threads if self.device == "cpu" else None,
        )


def _check_density(workload: Workload, density: float, sparse: bool) -> None:
    if not 0 < density <= 1:
        raise UsageError(f"density {density:g} is outside (0, 1]")
    if sparse:
        try:
            unit_budget(workload.shape.blocks, density)
        except BudgetError as error:
            raise UsageError(f"{workload.name}: {error}") from error


def method_config(
    method: MethodInfo, options: tuple[tuple[str, Any], ...], workload: Workload | None
) -> Config:
    """The method's hyperparameters: options given, the workload's transfer multiplier, defaults.

    Raises:
        UsageError: an option that the method does not have, or a value that it refuses.
    """
    known = {f.name: f.type for f in fields(method.config)}
    values: dict[str, Any] = {}
    if method.transfers and workload is not None:
        values["transfer_multiplier"] = float(workload.transfer_multiplier)
    for key, value in options:
        if key not in known:
            raise UsageError(f"{method.name} has no option {key!r}; {nearest(key, known)}")
        values[key] = _typed(method.name, key, value, known[key])
    try:
        return method.config(**values)
    except ValueError as error:
        raise UsageError(f"{method.name}: {error}") from error


def _typed(method: str, key: str, value: Any, wanted: Any) -> Any:
    if wanted is float and type(value) in (int, float):
        return float(value)
    if type(value) is not wanted:
        raise UsageError(f"{method}: option {key} takes a {wanted.__name__}, not {value!r}")
    return value


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """What the user may have meant, for the end of an error line."""
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
