"""What an Execution makes of a training step: the same numbers, or finite ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch.optim import Optimizer

from bench.accounting import StepAccount, account_step
from bench.arithmetic import loss_scale
from bench.execution import Execution
from bench.measure.clock import make_clock
from bench.measure.disturbances import graphs_compiled
from bench.optimization import make_optimizer
from bench.session import Session, build_session
from bench.snapshot import Snapshot
from bench.study_file import study_spec
from bench.workloads.recipes import VIT_DIGITS

CPU = torch.device("cpu")


def session(method: str = "dense", steps: int = 8, **execution: Any) -> Session:
    given = {"methods": method, "steps": steps, "batch_size": 8, "seeds": "0"}
    (run,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(replace(run, execution=Execution(**execution)), CPU)


@dataclass(frozen=True)
class Outcome:
    losses: list[float]
    updates: list[Mapping[str, Any]]
    weights: list[torch.Tensor]


def train(chosen: Session) -> Outcome:
    clock, losses, updates = make_clock(CPU), [], []
    for step in range(1, chosen.spec.total_steps + 1):
        loss, update = chosen.train_step(step, chosen.data.batch(step), clock)
        losses.append(loss.item())
        updates += [vars(event) for event in update.events]
    return Outcome(losses, updates, [p.detach().clone() for p in chosen.model.parameters()])


@pytest.mark.parametrize("method", ["dense", "barter", "rigl"])
@pytest.mark.parametrize(
    "change", [{"optimizer": "foreach"}, {"optimizer": "loop"}, {"attention": "math"}]
)
def test_another_implementation_gives_the_same_training(method: str, change: dict) -> None:
    usual, other = train(session(method)), train(session(method, **change))
    assert other.losses == pytest.approx(usual.losses, rel=1e-4)
    assert other.updates == usual.updates
    mine, theirs = (torch.cat([w.flatten() for w in x.weights]) for x in (usual, other))
    assert (mine - theirs).norm() < 1e-3 * mine.norm()


@pytest.mark.parametrize("implementation", ["fused", "foreach", "loop"])
def test_adam_is_the_implementation_that_was_asked_for(implementation: str) -> None:
    made: Optimizer = make_optimizer(torch.nn.Linear(1, 1), VIT_DIGITS, CPU, implementation)
    (group,) = made.param_groups
    chosen = {"fused": (True, None), "foreach": (None, True), "loop": (None, False)}
    assert (group["fused"], group["foreach"]) == chosen[implementation]


@pytest.mark.parametrize("method", ["dense", "barter", "snfs", "s2vite"])
@pytest.mark.parametrize("autocast", ["bf16", "fp16"])
def test_half_precision_trains(method: str, autocast: str) -> None:
    half, usual = train(session(method, autocast=autocast)), train(session(method))
    assert all(weight.dtype == torch.float32 for weight in half.weights)
    assert all(weight.isfinite().all() for weight in half.weights)
    assert half.losses != usual.losses
    assert half.losses == pytest.approx(usual.losses, rel=0.05)


def test_a_step_whose_gradients_overflow_is_left_out_and_the_scale_halves() -> None:
    chosen = session(autocast="fp16", steps=2)
    clock = make_clock(CPU)
    chosen.train_step(1, chosen.data.batch(1), clock)
    before = [p.detach().clone() for p in chosen.model.parameters()]
    chosen.scaler.load_state_dict(chosen.scaler.state_dict() | {"scale": 2.0**120})
    recipe = replace(chosen.spec.recipe, weight_decay=0.0)
    replace(chosen, spec=replace(chosen.spec, recipe=recipe)).train_step(
        2, chosen.data.batch(2), clock
    )
    assert all(map(torch.equal, before, chosen.model.parameters()))
    assert float(loss_scale(chosen.scaler)) == 2.0**119


def test_only_fp16_scales_its_loss() -> None:
    for autocast in ("none", "bf16"):
        assert loss_scale(session(autocast=autocast).scaler) == 1.0


def test_a_snapshot_holds_the_scale() -> None:
    chosen = session(autocast="fp16", steps=2)
    chosen.train_step(1, chosen.data.batch(1), make_clock(CPU))
    taken, scale = Snapshot.take(chosen), float(loss_scale(chosen.scaler))
    chosen.scaler.load_state_dict(chosen.scaler.state_dict() | {"scale": 8.0})
    taken.restore(chosen)
    assert float(loss_scale(chosen.scaler)) == scale == 2.0**16


def account(**execution: Any) -> StepAccount:
    return account_step(session(steps=2, **execution), 1)


def test_accounting_sees_through_every_option() -> None:
    usual = account()
    for execution in ({"attention": "math"}, {"autocast": "bf16"}, {"autocast": "fp16"}):
        other = account(**execution)
        assert other.macs.training == usual.macs.training
        assert other.operators != usual.operators
        assert sum(other.peak_parts.values()) == other.peak_allocated_bytes
    assert account(attention="math").macs.recomputed == 0 < usual.macs.recomputed
    assert account(autocast="bf16").peak_allocated_bytes != usual.peak_allocated_bytes
    loop, foreach = account(optimizer="loop"), account(optimizer="foreach")
    assert loop.operators > foreach.operators > usual.operators
    assert loop.macs == foreach.macs == usual.macs


def test_accounting_looks_into_the_model_and_not_into_its_graph() -> None:
    before = graphs_compiled()
    assert account(compile=True) == account()
    assert graphs_compiled() == before
