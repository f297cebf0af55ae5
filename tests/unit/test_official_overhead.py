"""The published codes' overhead of RigL and SRigL: what it costs, and that it changes nothing."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from baselines.config import LEAN, OFFICIAL, RigLConfig, SRigLConfig
from baselines.gradient_grown import GradientGrown
from baselines.rigl import RigL
from baselines.srigl import SRigL
from methods.base import TopologyUpdate
from tests.support.reads import CountReads
from tests.support.training import Trained, assert_equal_models, attach, batch, small_vit

STEPS = 34
WINDOW: dict[str, Any] = {"interval": 5, "min_updates": 0, "dense_gradient_steps": 3}
OTHER_ORDER: dict[str, Any] = {"update_order": "replaces_optimizer_step", "reset_grown_state": True}
VARIANTS: dict[str, Any] = {
    "rigl": lambda overhead: RigL(RigLConfig(overhead=overhead)),
    "rigl-window": lambda overhead: RigL(RigLConfig(overhead=overhead, **WINDOW)),
    "rigl-replaces": lambda overhead: RigL(RigLConfig(overhead=overhead, **OTHER_ORDER)),
    "srigl": lambda overhead: SRigL(SRigLConfig(overhead=overhead)),
    "srigl-all-live": lambda overhead: SRigL(SRigLConfig(overhead=overhead, ablation=False)),
    "srigl-window": lambda overhead: SRigL(SRigLConfig(overhead=overhead, gamma=0.95, **WINDOW)),
}
ABLATING = ("srigl", "srigl-window")
Started = tuple[Trained, GradientGrown]


def start(
    name: str, overhead: str = OFFICIAL, model: Any = None, optimizer: str = "adam-fused"
) -> Started:
    method = VARIANTS[name](overhead)
    return attach(method, model or small_vit(), STEPS, 0.3, optimizer), method


def both(name: str, build: Any = small_vit, optimizer: str = "adam-fused") -> list[Started]:
    return [start(name, overhead, build(), optimizer) for overhead in (LEAN, OFFICIAL)]


def assert_same(lean: Started, official: Started) -> None:
    """Weights, masks and optimizer state, bit for bit."""
    (left, left_method), (right, right_method) = lean, official
    assert_equal_models(left.model, right.model)
    for mine, other in zip(left_method.weights, right_method.weights, strict=True):
        assert torch.equal(mine.mask, other.mask)
        assert mine.active == other.active
        state = left.optimizer.state[mine.parameter]
        for key, value in right.optimizer.state[other.parameter].items():
            assert torch.equal(torch.as_tensor(state[key]), torch.as_tensor(value)), key


def loss_of(model: nn.Module, step: int) -> Tensor:
    images, targets = batch(step)
    return cross_entropy(model(images), targets)


def finish(run: Trained, step: int, scale: float = 1.0) -> TopologyUpdate:
    """What follows the backward passes of a step."""
    run.method.after_backward(step, scale)
    for gradient in (parameter.grad for parameter in run.model.parameters()):
        assert gradient is not None
        gradient.div_(scale)
    run.optimizer.step()
    update = run.method.update_topology(step)
    run.method.after_step(step)
    run.optimizer.zero_grad(set_to_none=True)
    return update


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd-momentum"])
def test_decisions_are_those_of_the_lean_form(name: str, optimizer: str) -> None:
    lean, official = both(name, optimizer=optimizer)
    updates = 0
    for mine, other in zip(lean[0].run(1, STEPS), official[0].run(1, STEPS), strict=True):
        assert mine == other
        assert_same(lean, official)
        updates += bool(mine[2])
    assert updates >= 4


def expected_reads(name: str, matrices: int, rows: int, living: int) -> int:
    """Of `update_topology` in an update, as the modules' docstrings have it; the first of its
    passes of masks is the one after the optimizer's step."""
    reads = 2 * 2 * matrices + matrices + rows
    if name.startswith("srigl"):
        reads += rows + living + matrices + 2 * matrices**2
    return reads + (rows + matrices) * (name in ABLATING)


@pytest.mark.parametrize("name", VARIANTS)
def test_host_synchronisations(name: str) -> None:
    run, method = start(name)
    matrices, rows = 16, 4 * (3 * 16 + 16 + 20 + 16)
    for step in range(1, STEPS + 1):
        with CountReads() as before:
            loss_of(run.model, step).backward()
            method.after_backward(step)
            run.optimizer.step()
        assert not before.seen
        with CountReads() as updating:
            update = method.update_topology(step)
        with CountReads() as after:
            method.after_step(step)
        run.optimizer.zero_grad(set_to_none=True)
        living = sum(int(weight.mask.any(1).sum()) for weight in method.weights)
        if update:
            assert len(updating.seen) == expected_reads(name, matrices, rows, living)
            assert updating.seen.count("tolist") == matrices * (name in ABLATING)
        assert len(after.seen) == 2 * matrices * (not update)


@pytest.mark.parametrize(
    ("name", "per_row", "per_pair"), [("rigl", 2, 0), ("srigl-all-live", 31, 7), ("srigl", 33, 7)]
)
def test_operators_of_an_update(name: str, per_row: int, per_pair: int) -> None:
    counts = {}
    for overhead in (LEAN, OFFICIAL):
        run, method = start(name, overhead, optimizer="sgd")
        step = method.schedule.interval
        list(run.run(1, step - 1))
        loss_of(run.model, step).backward()
        method.after_backward(step)
        with CountReads() as counter:
            method.update_topology(step)
        counts[overhead] = counter.operators
    extra, expected = counts[OFFICIAL] - counts[LEAN], per_row * 400 + per_pair * 16**2
    assert expected <= extra <= 1.1 * expected + 70 * 16


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("optimizer", "stop"), [("adam-fused", 14), ("sgd-momentum", 17)])
def test_resumed_equals_uninterrupted(name: str, optimizer: str, stop: int) -> None:
    whole, method = start(name, optimizer=optimizer)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]
    half, first = start(name, optimizer=optimizer)
    list(half.run(1, stop))
    saved = first.state_dict()
    model, state = deepcopy((half.model.state_dict(), half.optimizer.state_dict()))
    list(half.run(stop + 1, stop + 6))  # a snapshot stays what it is
    resumed, second = start(name, model=small_vit(seed=9), optimizer=optimizer)
    second.load_state_dict(saved)
    resumed.model.load_state_dict(model)
    resumed.optimizer.load_state_dict(state)
    assert [loss for _, loss, _ in resumed.run(stop + 1, STEPS)] == losses[stop:]
    assert_same((whole, method), (resumed, second))
    for left, right in zip(second.state_tensors(), method.state_tensors(), strict=True):
        assert torch.equal(left, right)


def hooks(model: nn.Module) -> int:
    return sum(len(parameter._backward_hooks or ()) for parameter in model.parameters())


def test_hooks_stay_with_the_weights_bound() -> None:
    run, method = start("rigl")
    list(run.run(1, 5))
    assert hooks(run.model) == len(method.weights)
    for copy in (method.export(run.model), deepcopy(run.model)):
        assert hooks(copy) == 0
        parameters = [copy.get_parameter(weight.name) for weight in method.weights]
        gradients = torch.autograd.grad(loss_of(copy, 6), parameters)
        for gradient, weight in zip(gradients, method.weights, strict=True):
            assert gradient[~weight.mask].any()
    method.bind(method.weights, run.optimizer, method.context)
    assert hooks(run.model) == len(method.weights)
    method.overhead.close()
    assert hooks(run.model) == 0
    assert hooks(start("rigl", LEAN)[0].model) == 0


@pytest.mark.parametrize("name", ["rigl-window", "srigl"])
@pytest.mark.parametrize(("parts", "scale"), [(3, 1.0), (2, 1024.0)])
def test_accumulation_agrees_with_the_lean_form(name: str, parts: int, scale: float) -> None:
    """Bit for bit; a backward pass whose gradients are thrown away leaves no trace."""
    lean, official = both(name)
    for step in range(1, STEPS + 1):
        updates = []
        for run, _ in (lean, official):
            images, targets = batch(step)
            run.model(images).sum().backward()
            run.optimizer.zero_grad(set_to_none=True)
            for part in torch.arange(len(targets)).chunk(parts):
                loss = cross_entropy(run.model(images[part]), targets[part])
                (scale / parts * loss).backward()
            updates.append(finish(run, step, scale))
        assert updates[0] == updates[1]
        assert_same(lean, official)


@pytest.mark.parametrize("name", ["rigl", "srigl"])
def test_frozen_weights_keep_their_masks_and_may_thaw(name: str) -> None:
    """One is frozen from the beginning, the next after the first step; both thaw."""
    model = small_vit()
    model.get_parameter("blocks.0.attn.qkv.weight").requires_grad_(False)
    lean, official = both(name, lambda: deepcopy(model))
    before = [weight.mask.clone() for weight in official[1].weights[:2]]
    for step in range(1, STEPS + 1):
        for _, method in (lean, official):
            method.weights[0].parameter.requires_grad_(step > 10)
            method.weights[1].parameter.requires_grad_(not 2 <= step <= 10)
        assert lean[0].step(step) == official[0].step(step)
        assert_same(lean, official)
        if step in (10, STEPS):
            for weight, mask in zip(official[1].weights[:2], before, strict=True):
                assert torch.equal(weight.mask, mask) == (step == 10)


@pytest.mark.parametrize("name", ["rigl", "srigl"])
def test_bfloat16_autocast(name: str) -> None:
    lean, official = both(name, lambda: small_vit().float())
    for step in range(1, STEPS + 1):
        images, targets = batch(step)
        for run, _ in (lean, official):
            with torch.autocast("cpu", torch.bfloat16):
                loss = cross_entropy(run.model(images.float()), targets)
            loss.backward()
            finish(run, step)
        assert_same(lean, official)


def test_what_is_kept() -> None:
    """A byte an entry says what was ever active; dense gradients only from a window to its end."""
    run, method = start("rigl-window")
    ever = [weight.mask.clone() for weight in method.weights]
    entries = sum(weight.mask.numel() for weight in method.weights)
    for step in range(1, STEPS + 1):
        run.step(step)
        for seen, weight in zip(ever, method.weights, strict=True):
            seen |= weight.mask
        tensors = method.state_tensors()
        masks, window, kept = tensors[:16], tensors[16:-16], tensors[-16:]
        collects = method.schedule.needs_dense_gradient(step, 3)
        assert len(window) == 16 * (collects and not method.schedule.is_update(step))
        assert all(torch.equal(*pair) for pair in zip(ever, kept, strict=True))
        assert sum(tensor.nbytes for tensor in (*masks, *kept)) == 2 * entries
    assert sum(int(seen.sum()) for seen in ever) > 1.1 * sum(w.active for w in method.weights)


def test_several_processes_are_refused() -> None:
    run, method = start("rigl")
    with pytest.raises(ValueError, match="single process"):
        method.bind(method.weights, run.optimizer, replace(method.context, process_group=1))
