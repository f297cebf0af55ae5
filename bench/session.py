"""One run's model, optimizer, method and data, and the training step that all methods share."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from bench.arithmetic import (
    Forward,
    attention,
    autocast,
    forward_of,
    loss_scale,
    loss_scaler,
)
from bench.cuda_graphs import CudaGraphs
from bench.errors import UsageError
from bench.finetune import inherit
from bench.method_registry import get_method
from bench.optimization import learning_rate, make_optimizer, set_rate, step_with_decay
from bench.recompute import recompute_in
from bench.run_spec import RunSpec
from bench.start import FINETUNE
from bench.step_pieces import CALLED, Pieces, RecordedPieces
from bench.workloads.build import build_model, load_data
from bench.workloads.data import Data
from bench.workloads.registry import get_workload
from methods.base import MethodContext, SparseMethod, TopologyUpdate


class StepClock(Protocol):
    """Told where a step is; `bench.measure.clock.Clock` times it."""

    def start_step(self) -> None: ...
    def mark(self, name: str) -> None: ...


@dataclass(frozen=True)
class Session:
    """Everything that a training step works on. One seed gives all methods the same dense
    weights, data order and augmentation."""

    spec: RunSpec
    device: torch.device
    model: nn.Module
    optimizer: Optimizer
    method: SparseMethod
    data: Data
    forward: Forward
    """The model, compiled where the run asks for it."""
    scaler: GradScaler
    """Of the loss; does nothing unless the run is in fp16."""
    pieces: Pieces = CALLED
    """How the parts of a step are carried out: called, or replayed from CUDA graphs."""

    def uncompiled(self) -> "Session":
        """The same session, whose steps can be looked into: counters see nothing of a graph."""
        self.pieces.forget()
        return replace(self, forward=self.model, pieces=CALLED)

    @property
    def is_dynamic(self) -> bool:
        """Whether this run is meant to change its topology: a continued one is not."""
        return self.method.is_dynamic and not self.spec.continued

    def scheduled_transfers(self) -> Mapping[str, int]:
        """Unit type -> transfers that this run's own steps are asked for."""
        return {} if self.spec.continued else self.method.scheduled_transfers()

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Images and targets of a step of this run (from 1)."""
        return self.data.batch(self.spec.steps_before + step)

    def train_step(
        self, step: int, batch: tuple[Tensor, Tensor], clock: StepClock
    ) -> tuple[Tensor, TopologyUpdate]:
        """One optimizer step (from 1) and what follows it; never waits for the device.

        Returns:
            The minibatch loss (still on the device) and what changed in the topology.
        """
        recipe, execution = self.spec.recipe, self.spec.execution
        # A method counts the steps of the run that is continued, too; a schedule starts afresh.
        rate, step = (
            learning_rate(recipe, step, self.spec.total_steps),
            self.spec.steps_before + step,
        )
        clock.start_step()
        images, targets = self.pieces.start(self.method.launch_key(), batch)

        def loss_of_batch() -> Tensor:
            with autocast(execution, self.device):
                logits = self.forward(images)
                return cross_entropy(logits, targets, label_smoothing=recipe.label_smoothing)

        with attention(execution):
            loss = self.pieces.run("forward", loss_of_batch)
            clock.mark("forward")
            self.pieces.run("backward", lambda: self.scaler.scale(loss).backward())
        if self.pieces.owns_gradients:
            self.method.backward_was_replayed()
        self.method.after_backward(step, loss_scale(self.scaler))
        clock.mark("backward")
        if not self.method.replaces_optimizer_step(step):
            set_rate(self.optimizer, rate)
            self.pieces.run(
                "optimizer", lambda: step_with_decay(self.optimizer, recipe, self.scaler)
            )
        clock.mark("optimizer")
        update = self.method.update_topology(step)
        self.method.after_step(step)
        outcome = self.pieces.lasting(loss)
        if update.replaced_parameters:
            for old, _ in update.replaced_parameters.values():
                old.grad = None  # it may lie in a recording's memory
            self.pieces.forget()
        clock.mark("topology")
        if not self.pieces.owns_gradients:
            self.optimizer.zero_grad(set_to_none=True)
        clock.mark("optimizer")
        return outcome, update


def build_session(spec: RunSpec, device: torch.device) -> Session:
    """Model and method from the run's seed, on `device`.

    The global random state is seeded for what the model itself draws while it trains
    (stochastic depth).
    """
    workload = get_workload(spec.workload)
    model = build_model(workload, spec.seed).to(device)
    recompute_in(model, spec.execution.recomputes)
    recorded = spec.execution.cuda_graphs
    optimizer = make_optimizer(model, spec.recipe, device, spec.execution.optimizer, recorded)
    if spec.start and spec.start.kind == FINETUNE:
        inherit(model, spec.start)  # dense, before the method selects units
    method = get_method(spec.method).create(spec.config)
    context = MethodContext(
        workload.shape.blocks,
        spec.density,
        spec.steps_before or spec.total_steps,
        spec.seed,
        workload.steps_per_epoch(spec.batch_size),
    )
    method.attach(model, optimizer, context)
    if recorded and method.launch_key() is None:
        raise UsageError(f"{spec.contender} waits for the device in its hooks: no CUDA graph does")
    if spec.dataset and not spec.stored:  # never other images under that name
        raise UsageError(f"nobody said where {spec.dataset} is")
    data = load_data(workload, spec.seed, spec.batch_size, device, spec.stored)
    torch.manual_seed(spec.seed)
    model.train()
    forward, scaler = forward_of(spec.execution, model), loss_scaler(spec.execution, device)
    session = Session(spec, device, model, optimizer, method, data, forward, scaler)
    if not recorded:
        return session
    return replace(session, pieces=RecordedPieces(CudaGraphs(device), optimizer.zero_grad))
