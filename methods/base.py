"""The one interface that every sparse-training method implements.

A method says *what* changes; the caller owns *when*. A training step, for any method:

    loss.backward()
    method.after_backward(step)
    if not method.replaces_optimizer_step(step):
        optimizer.step()
    update = method.update_topology(step)   # may replace Parameters of the model
    method.after_step(step)
    optimizer.zero_grad(set_to_none=True)

Methods know no clock, file, logger or global random state: all chance is derived from
`MethodContext.seed`, so the same seed gives the same run.
"""

from abc import ABC
from collections.abc import Hashable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer

from methods.budget import TransformerShape
from methods.config import Config
from methods.invariant import EXACT, BudgetInvariant
from methods.units import UnsupportedModelError, find_layers


class GradientNeed(Enum):
    """Which weight gradients a step needs in principle; the MAC counter asks the same question."""

    ACTIVE = "active"
    DENSE = "dense"


class UpdateOrder(Enum):
    """How a topology update stands to the optimizer step of the same step."""

    NEVER = "never"
    AFTER_OPTIMIZER_STEP = "after_optimizer_step"
    REPLACES_OPTIMIZER_STEP = "replaces_optimizer_step"


@dataclass(frozen=True)
class Topology:
    """Active units of every layer now."""

    heads_per_layer: tuple[int, ...]
    channels_per_layer: tuple[int, ...]


@dataclass(frozen=True)
class TopologyEvent:
    """One attempted change: a transfer of a unit, or a drop and grow in one layer.

    Unit indices are those before the event. `skip_reason` is None where it was executed.
    """

    unit_type: str
    skip_reason: str | None = None
    receiver_layer: int | None = None
    parent_unit: int | None = None
    donor_layer: int | None = None
    donor_unit: int | None = None
    dropped: int = 0
    grown: int = 0

    @property
    def executed(self) -> bool:
        return self.skip_reason is None


@dataclass(frozen=True)
class TopologyUpdate:
    """What one call of `update_topology` did; no events where none was scheduled."""

    events: tuple[TopologyEvent, ...] = ()
    replaced_parameters: Mapping[str, tuple[nn.Parameter, nn.Parameter]] = field(
        default_factory=dict
    )
    """Qualified name -> (old, new), for callers that keep their own references (EMA copies)."""

    def __bool__(self) -> bool:
        return bool(self.events)


@dataclass(frozen=True)
class MethodContext:
    """What the caller tells a method about the run."""

    shape: TransformerShape
    density: float
    total_steps: int
    """Optimizer steps of the whole schedule (T); step numbers are 1-based."""
    seed: int
    steps_per_epoch: int | None = None
    """For methods that count in epochs; None where there are none."""
    process_group: Any = None
    """torch.distributed group over which scores must agree; None in a single process. Each
    rank's loss is then the mean of its own samples, as DistributedDataParallel expects."""


class SparseMethod(ABC):
    """What a dynamic (or static, or dense) sparse-training method does to a model.

    Subclasses are either abstract or final. `attach` is called once, before anything else; it
    may replace Parameters, so the optimizer is handed in with it.
    """

    name: ClassVar[str]
    """What `--methods` calls it."""
    config_type: ClassVar[type[Config]] = Config
    is_dynamic: ClassVar[bool] = False
    """Whether the topology is meant to change: a dynamic run without an update is invalid."""
    update_order: UpdateOrder = UpdateOrder.NEVER
    """Of the method, or of one instance where its configuration decides."""
    realisation: ClassVar[str] = "compact"
    """`compact` (tensors have their active shape) or `masked` (full tensors times masks)."""
    budget_invariant: BudgetInvariant = EXACT
    """How `active_parameters` stands to `allowed_parameters`, at any time."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config if config is not None else self.config_type()
        if type(self.config) is not self.config_type:
            raise TypeError(
                f"{type(self).__name__} takes a {self.config_type.__name__},"
                f" not a {type(self.config).__name__}"
            )

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        """Bring `model` to the initial topology and remember what the method works on.

        Raises:
            UnsupportedModelError: the model has no blocks whose units can be told apart, or
                not those that `context.shape` describes.
        """
        self.model, self.optimizer, self.context = model, optimizer, context
        self.head_layers, self.channel_layers = find_layers(model)
        shape = context.shape
        dense = Topology((shape.heads,) * shape.layers, (shape.channels,) * shape.layers)
        if self.topology() != dense:
            raise UnsupportedModelError(f"the model has {self.topology()}, expected {dense}")

    def gradient_need(self, step: int) -> GradientNeed:
        """Which weight gradients this step needs in principle: ACTIVE promises that gradients of
        inactive entries change nothing, now or later."""
        return GradientNeed.ACTIVE

    def flags(self, step: int) -> tuple[str, ...]:
        """What is special about this step: any of `collecting`, `update`, `dense_gradient`."""
        return ()

    def launch_key(self) -> Hashable | None:
        """What decides, beside the topology, which operators the next forward and backward pass
        launch: hooks of the method's own. None if these wait for the device, so that the passes
        can never be replayed from a recording."""
        return ()

    def backward_was_replayed(self) -> None:  # noqa: B027
        """In place of calling the method's hooks, what they once launched was launched again: do
        what they do on the host."""

    def replaces_optimizer_step(self, step: int) -> bool:
        """Whether the caller must leave the optimizer step of this step out."""
        return False

    def after_backward(self, step: int, loss_scale: float | Tensor = 1.0) -> None:  # noqa: B027
        """Read the gradients of the whole minibatch, after its last backward pass.

        Args:
            loss_scale: factor by which the loss was multiplied (a gradient scaler's); a tensor
                is never read on the host.
        """

    def update_topology(self, step: int) -> TopologyUpdate:
        """Change the topology if this step is scheduled to; called after the optimizer step."""
        return TopologyUpdate()

    def after_step(self, step: int) -> None:  # noqa: B027
        """Re-impose the method's invariant after the optimizer has moved the weights."""

    def topology(self) -> Topology:
        """Active units of every layer now; by default those that the tensors hold."""
        return Topology(
            tuple(layer.width for layer in self.head_layers),
            tuple(layer.width for layer in self.channel_layers),
        )

    def active_parameters(self) -> int:
        """Parameters of the model that are active now; masked entries do not count."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def allowed_parameters(self) -> int:
        """Active parameters that the method's own rule makes of the density, whole model."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def masks(self) -> Mapping[str, Tensor]:
        """Qualified name -> bool mask (True is active) of every parameter that holds entries which
        the method keeps at zero; none where tensors are compact."""
        return {}

    def scheduled_transfers(self) -> Mapping[str, int]:
        """Unit type -> transfers that the schedule asks for."""
        return {}

    def state_tensors(self) -> tuple[Tensor, ...]:
        """Tensors that the method itself keeps on the device (scores, masks)."""
        return ()

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside model and optimizer: tensors, numbers, lists."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Restore `state_dict()`, whose tensors may lie on any device; reshapes the attached model,
        whose own state is loaded after."""

    def export(self, model: nn.Module) -> nn.Module:
        """A stand-alone copy of `model` as it would be deployed: no hooks of the method's, no
        gradients."""
        exported = deepcopy(model)
        exported.zero_grad(set_to_none=True)
        return exported
