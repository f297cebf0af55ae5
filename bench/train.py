"""The training loop: every step timed and recorded, the model evaluated at intervals."""

import gc
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Protocol

import torch
from torch import nn

from bench.accounting import Accountant, Kind, StepAccount, kind_of
from bench.arithmetic import autocast
from bench.evaluation import Evaluation, evaluate
from bench.measure.clock import make_clock
from bench.measure.disturbances import Disturbances, graphs_compiled
from bench.measure.memory import AllocatorPeak
from bench.measure.sampler import Sampler
from bench.optimization import learning_rate
from bench.progress import Progress
from bench.schema import CAPTURE, RECOMPILE, WARM_UP
from bench.session import Session
from bench.step_records import StepRecord, pack_rows, pack_steps, unpack_rows, unpack_steps
from bench.workloads.data import Split
from bench.workloads.registry import get_workload
from methods.base import Topology

WARM_UP_STEPS = 5
"""First steps, in which caches and allocators fill; at most a tenth of the run is marked so."""


class DivergedError(Exception):
    """The loss is no longer a finite number."""


class Keeper(Protocol):
    """Writes a training down while it is under way."""

    def due(self, step: int) -> bool: ...
    def save(self, training: "Training") -> None: ...


class Training:
    """One run from its first step to its last, and the records of it.

    Args:
        sampler: told when steps are timed and when not.
        keeper: asked after every step, and called between timed ones.
    """

    def __init__(
        self,
        session: Session,
        report: Callable[[Progress], None],
        sampler: Sampler | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.session = session
        self.steps: list[StepRecord] = []
        self.evals: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.active_parameters = [session.method.active_parameters()]
        self.selected: tuple[int, nn.Module] | None = None
        self.test: Evaluation | None = None
        self.stored_parameters = 0
        self.accounts: dict[Kind, StepAccount] = {}
        self.disturbance_codes: list[str] = []
        self.steps_before = 0
        """Steps that another process did, before this one went on."""
        self.recompiles = 0
        """Graphs compiled after the first step of a process."""
        self.captures = 0
        """Steps in which CUDA graphs were recorded."""
        self._disturbances = Disturbances(session.device)
        self._warm_up = min(WARM_UP_STEPS, session.spec.total_steps // 10)
        self._sampler = sampler or Sampler(None)
        self._keeper = keeper
        self._report = report
        self._accountant = Accountant()
        self._clock = make_clock(session.device)
        self._allocator = AllocatorPeak(session.device) if session.device.type == "cuda" else None
        self._best: tuple[float, float] | None = None
        self._top1: float | None = None
        continued = session.spec.continued
        self._macs = continued.training_macs if continued else 0.0

    def run(self) -> None:
        """Train, evaluate the selected checkpoint on the test split, account the costs.

        Raises:
            DivergedError: the loss became NaN or infinite.
        """
        # What was imported is garbage never: without this the collector walks through all of it,
        # now and then, in the middle of a timed step.
        gc.collect()
        gc.freeze()
        session = self.session
        with self._sampler.timed():
            self._train()
        self.disturbance_codes = self._codes()
        if self.selected:
            self.test = self._evaluate(self.selected[1], "test")
            self._add_evaluation(self.selected[0], "test", self.test)
        exported = session.method.export(session.model)
        self.stored_parameters = sum(parameter.numel() for parameter in exported.parameters())
        self.accounts = self._accountant.settle(session)

    def _train(self) -> None:
        spec = self.session.spec
        interval = get_workload(spec.workload).eval_interval(spec.batch_size)
        topology = self.session.method.topology()
        for step in range(self.steps_before + 1, spec.total_steps + 1):
            if step == self._cold_until + 1:
                self._disturbances.start()
            topology = self._step(step, topology)
            validates = step == spec.total_steps or step % interval == 0
            saves = self._keeper is not None and self._keeper.due(step)
            if validates or saves or step % max(1, min(interval, spec.total_steps // 20)) == 0:
                self._settle_segment(step)
            if validates or saves:
                with self._sampler.paused():
                    self._between_steps(step, validates, saves)

    def _between_steps(self, step: int, validates: bool, saves: bool) -> None:
        """What is not timed. An evaluation comes first: it may select what is to be saved."""
        if validates:
            self._validate(step)
        if saves and self._keeper:
            self._keeper.save(self)

    def _step(self, step: int, topology: Topology) -> Topology:
        """One step; returns the topology after it."""
        session, spec = self.session, self.session.spec
        kind = kind_of(spec.steps_before + step, topology, session.method)
        flags = kind[1]
        self._accountant.note(kind, step, session)
        batch = session.batch(step)
        if self._allocator:
            self._allocator.reset()
        graphs, captures = graphs_compiled(), session.pieces.captures
        loss, update = session.train_step(step, batch, self._clock)
        peak = self._allocator.read() if self._allocator else None
        warm = (WARM_UP,) if step <= self._cold_until else ()
        self.recompiles += (graphs_compiled() - graphs) * (step > self.steps_before + 1)
        compiled = (RECOMPILE,) if graphs_compiled() > graphs else ()
        captured = (CAPTURE,) if session.pieces.captures > captures else ()
        self.captures += len(captured)
        rate = learning_rate(spec.recipe, step, spec.total_steps)
        self.steps.append(
            StepRecord(
                (*warm, *flags, *compiled, *captured),
                kind,
                rate,
                loss,
                self.active_parameters[-1],
                peak,
            )
        )
        if not update:
            return topology
        active = session.method.active_parameters()
        self.active_parameters.append(active)
        for event in update.events:
            row = vars(event) | {"step": step, "executed": event.executed}
            self.updates.append(row | {"active_parameters": active})
        return session.method.topology()

    @property
    def _cold_until(self) -> int:
        """Last step of the warm-up: every process has one, also one that goes on."""
        return self.steps_before + self._warm_up

    def _codes(self) -> list[str]:
        """Of all processes so far."""
        return list(dict.fromkeys([*self.disturbance_codes, *self._disturbances.codes()]))

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs beside its session and the selected model. To be asked
        for between steps that were read."""
        return {
            "steps": pack_steps(self.steps),
            "evals": pack_rows(self.evals),
            "updates": pack_rows(self.updates),
            "active_parameters": self.active_parameters,
            "recompiles": self.recompiles,
            "captures": self.captures,
            "disturbance_codes": self._codes(),
            "best": self._best,
            "top1": self._top1,
            "accountant": self._accountant.state_dict(),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], selected: tuple[int, nn.Module] | None
    ) -> None:
        """Go on after the last step of `state_dict()`; the session has been restored.

        Args:
            selected: step and exported model of the evaluation that was best until then.
        """
        self.steps = unpack_steps(state["steps"])
        self.evals, self.updates = unpack_rows(state["evals"]), unpack_rows(state["updates"])
        self.active_parameters = state["active_parameters"]
        self.recompiles, self.captures = state["recompiles"], state.get("captures", 0)
        self.disturbance_codes = state["disturbance_codes"]
        self.selected = selected
        self.steps_before = len(self.steps)
        self._best, self._top1 = state["best"], state["top1"]
        self._accountant.load_state_dict(state["accountant"])
        self._macs += sum(self._step_macs(record.kind[0]) for record in self.steps)

    def _step_macs(self, topology: Topology) -> float:
        """Of a step, from shapes: for people who wait. What is recorded is counted."""
        spec = self.session.spec
        shape = get_workload(spec.workload).shape
        heads, channels = sum(topology.heads_per_layer), sum(topology.channels_per_layer)
        if self.session.method.realisation == "masked":
            heads, channels = shape.blocks.total_heads, shape.blocks.total_channels
        return float(spec.batch_size * shape.macs_training(heads, channels))

    def keeps_budget(self) -> bool:
        """Whether the method kept its promise about active parameters, from start to end."""
        method = self.session.method
        allowed = method.allowed_parameters()
        return all(method.budget_invariant.holds(n, allowed) for n in self.active_parameters)

    def _settle_segment(self, step: int) -> None:
        """Wait for the device, then read times and losses of the steps since the last time."""
        times = self._clock.read()
        self._sampler.mark()
        recent = self.steps[len(self.steps) - len(times) :]
        losses = torch.stack([torch.as_tensor(record.loss) for record in recent]).tolist()
        for record, elapsed, loss in zip(recent, times, losses, strict=True):
            record.times, record.loss = elapsed, loss
        for offset, loss in enumerate(losses):
            if not isfinite(loss):
                raise DivergedError(f"loss is {loss} at step {step - len(losses) + 1 + offset}")
        self._macs += sum(self._step_macs(record.kind[0]) for record in recent)
        total = self.session.spec.total_steps
        self._report(Progress(step, total, losses[-1], self._top1, 2 * self._macs))

    def _validate(self, step: int) -> None:
        """Evaluate on the validation split; keep the model if it is the best so far.

        Best is highest top-1, then lowest loss, then earliest.
        """
        session = self.session
        result = self._evaluate(session.model, "validation")
        if result is None:
            return
        self._add_evaluation(step, "validation", result)
        self._top1 = result.top1_percent
        rank = (result.top1_percent, -result.loss)
        if self._best is None or rank > self._best:
            self._best = rank
            self.selected = (step, session.method.export(session.model).eval())

    def _evaluate(self, model: nn.Module, split: Split) -> Evaluation | None:
        """In the precision of the training steps."""
        with autocast(self.session.spec.execution, self.session.device):
            return evaluate(model, self.session.data, split)

    def _add_evaluation(self, step: int, split: str, result: Evaluation | None) -> None:
        if result is not None:
            self.evals.append({"step": step, "split": split, **vars(result)})
