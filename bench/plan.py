"""What a study would train and cost, without running it. No torch.

Everything here follows from shapes and schedules in closed form: budgets, transfers, steps, MACs
(specification, sections 3, 5, 6 and 9). The figures are those of the *full* schedule.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from bench.contender_label import label_text
from bench.errors import UsageError
from bench.execution import DEFAULT, Execution
from bench.method_options import changed_options
from bench.spec import StudySpec
from bench.workloads.registry import Workload, get_workload
from methods.budget import BudgetError, UnitBudget, spread, unit_budget
from methods.schedule import CHANNEL, HEAD, transfer_count

DENSE_DENSITY = 1.0

FLOPS_PER_MAC = 2

COLUMNS = (
    "workload",
    "method",
    "density",
    "heads",
    "channels",
    "heads_per_layer",
    "channels_per_layer",
    "head_transfers",
    "channel_transfers",
    "steps_per_epoch",
    "total_steps",
    "macs_forward_per_image",
    "macs_train_per_image",
    "flops_train_total",
    "flops_saving",
    "matched_epochs",
    "parameters",
    "execution",
    "tf32",
    "autocast",
    "compile",
    "attention",
    "optimizer",
    "threads",
    "recompute",
    "cuda_graphs",
)
"""Keys of every row, in order."""


class PlannedMethod(Protocol):
    """What the plan needs to know of a method."""

    @property
    def name(self) -> str: ...
    @property
    def sparse(self) -> bool:
        """Whether it trains at each density of the study, or once, densely."""
        ...

    @property
    def transfers(self) -> bool:
        """Whether units move between layers during training."""
        ...

    @property
    def masked(self) -> bool:
        """Whether it executes the dense model, with masks."""
        ...


@dataclass(frozen=True)
class _Schedule:
    """One workload's run, with the user's overrides applied."""

    workload: Workload
    batch_size: int
    steps_per_epoch: int
    total_steps: int
    multiplier: float

    @property
    def images(self) -> int:
        return self.total_steps * self.batch_size


def study_rows(spec: StudySpec) -> list[dict[str, Any]]:
    """The rows of a study, each once: by workload, grid, contender and density. A contender's
    name holds the hyperparameters that are not its method's defaults."""
    rows: dict[tuple[str, str, float, Execution], dict[str, Any]] = {}
    for workload in map(get_workload, spec.workloads):
        for grid in spec.grids:
            for contender in grid.contenders:
                config = spec.config(contender, workload)
                changed = changed_options(contender.method, config, workload)
                for row in plan_rows(
                    [workload],
                    [replace(contender.method, name=label_text(contender.method.name, changed))],
                    grid.densities,
                    total_steps=spec.steps,
                    batch_size=spec.batch_size,
                    transfer_multiplier=getattr(config, "transfer_multiplier", None),
                    execution=grid.execution,
                ):
                    named = (row["workload"], row["method"], row["density"])
                    rows.setdefault((*named, grid.execution), row)
    return list(rows.values())


def plan_rows(
    workloads: Sequence[Workload],
    methods: Sequence[PlannedMethod],
    densities: Sequence[float],
    total_steps: int | None = None,
    batch_size: int | None = None,
    transfer_multiplier: float | None = None,
    execution: Execution = DEFAULT,
) -> list[dict[str, Any]]:
    """One row per workload, method and density; a method that is not sparse has one row.

    Args:
        total_steps, batch_size, transfer_multiplier: in place of the workload's own.
        execution: told in every row, as no count depends on it.

    Returns:
        Rows with the keys of `COLUMNS`. `flops_saving` is a fraction of the dense run's FLOPs;
        `matched_epochs` are the epochs of this model that cost as much as the dense run. Transfer
        counts are None for methods without transfers. Masked methods execute and store what the
        dense model does, and that is what their rows say.

    Raises:
        UsageError: a density outside (0, 1] or too small for the model, steps below 1, a
            multiplier that is not positive, a batch larger than the training split.
    """
    if total_steps is not None and total_steps < 1:
        raise UsageError(f"steps must be at least 1, not {total_steps}")
    if transfer_multiplier is not None and not 0 < transfer_multiplier < float("inf"):
        raise UsageError(f"transfer multiplier must be above 0, not {transfer_multiplier}")
    rows = []
    for workload in workloads:
        schedule = _schedule(workload, total_steps, batch_size, transfer_multiplier)
        for method in methods:
            for density in densities if method.sparse else (DENSE_DENSITY,):
                rows.append(_row(schedule, method, density) | _executed(workload, execution))
    return rows


def _schedule(
    workload: Workload,
    total_steps: int | None,
    batch_size: int | None,
    transfer_multiplier: float | None,
) -> _Schedule:
    return _Schedule(
        workload=workload,
        batch_size=workload.recipe.batch_size if batch_size is None else batch_size,
        steps_per_epoch=workload.steps_per_epoch(batch_size),
        total_steps=workload.total_steps(batch_size) if total_steps is None else total_steps,
        multiplier=(
            workload.transfer_multiplier if transfer_multiplier is None else transfer_multiplier
        ),
    )


def _row(schedule: _Schedule, method: PlannedMethod, density: float) -> dict[str, Any]:
    shape = schedule.workload.shape
    dense = UnitBudget(shape.blocks.total_heads, shape.blocks.total_channels)
    budget = _budget(schedule.workload, density) if method.sparse else dense
    if method.masked:
        budget = dense
    heads_per_layer = spread(budget.heads, shape.blocks.layers)
    channels_per_layer = spread(budget.channels, shape.blocks.layers)
    head_transfers = channel_transfers = None
    if method.transfers:
        multiplier = schedule.multiplier
        head_transfers = transfer_count(HEAD, heads_per_layer, shape.blocks.heads, multiplier)
        channel_transfers = transfer_count(
            CHANNEL, channels_per_layer, shape.blocks.channels, multiplier
        )
    macs_train = shape.macs_training(budget.heads, budget.channels)
    dense_macs_train = shape.macs_training(dense.heads, dense.channels)
    return {
        "workload": schedule.workload.name,
        "method": method.name,
        "density": density,
        "heads": budget.heads,
        "channels": budget.channels,
        "heads_per_layer": list(heads_per_layer),
        "channels_per_layer": list(channels_per_layer),
        "head_transfers": head_transfers,
        "channel_transfers": channel_transfers,
        "steps_per_epoch": schedule.steps_per_epoch,
        "total_steps": schedule.total_steps,
        "macs_forward_per_image": shape.macs_forward(budget.heads, budget.channels),
        "macs_train_per_image": macs_train,
        "flops_train_total": FLOPS_PER_MAC * macs_train * schedule.images,
        "flops_saving": 1 - macs_train / dense_macs_train,
        "matched_epochs": (
            schedule.total_steps * dense_macs_train / (schedule.steps_per_epoch * macs_train)
        ),
        "parameters": shape.parameters(budget.heads, budget.channels),
    }


def _executed(workload: Workload, execution: Execution) -> dict[str, Any]:
    """`execution`: in words, where it is not the usual one. `threads`: on a CPU; None is torch's
    own choice."""
    on_cpu = execution.on(workload, "cpu")
    tf32 = workload.recipe.tf32 if on_cpu.tf32 is None else on_cpu.tf32
    usual = DEFAULT.on(workload, "cpu")
    return {"execution": on_cpu.beside(usual)} | asdict(on_cpu) | {"tf32": tf32}


def _budget(workload: Workload, density: float) -> UnitBudget:
    try:
        return unit_budget(workload.shape.blocks, density)
    except BudgetError as error:
        raise UsageError(f"{workload.name}: {error}") from None
