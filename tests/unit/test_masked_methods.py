"""Masked baselines on a model: counts, zeros, determinism, resuming, host synchronisations."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from baselines.config import RigLConfig, SetConfig, SnfsConfig, SRigLConfig
from baselines.rewiring import Rewiring
from baselines.rigl import RigL
from baselines.set import Set
from baselines.snfs import Snfs
from baselines.srigl import SRigL
from methods.base import GradientNeed
from methods.budget import BudgetError
from methods.chance import numpy_generator
from tests.support.reads import CountReads
from tests.support.training import (
    VIT,
    Trained,
    assert_equal_models,
    attach,
    batch,
    small_cct,
    small_vit,
)

STEPS = 44
DENSE_MATRICES = VIT.layers * (4 * 16 * 16 + 2 * 16 * 20)

DEFAULTS: dict[str, Any] = {
    "rigl": lambda: RigL(),
    "set": lambda: Set(),
    "snfs": lambda: Snfs(),
    "srigl": lambda: SRigL(),
}
VARIANTS: dict[str, Any] = DEFAULTS | {
    "rigl-replaces": lambda: RigL(
        RigLConfig(update_order="replaces_optimizer_step", dense_gradient_steps=2)
    ),
    "rigl-erk-reset": lambda: RigL(RigLConfig(distribution="erk", reset_grown_state=True)),
    "rigl-itop": lambda: RigL(RigLConfig(rule="itop", rate="cosine-decay")),
    "set-erk-float": lambda: Set(SetConfig(distribution="erk-float")),
    "set-itop": lambda: Set(SetConfig(rule="itop")),
    "set-sparse-learning": lambda: Set(SetConfig(rule="sparse-learning")),
    "set-authors": lambda: Set(SetConfig(rule="set-authors", rate="constant")),
    "snfs-size": lambda: Snfs(SnfsConfig(redistribution="size")),
    "srigl-all-live": lambda: SRigL(SRigLConfig(ablation=False)),
    "srigl-0.95": lambda: SRigL(SRigLConfig(gamma=0.95, ablation_fan_in="dense")),
}
EXACT = ("rigl", "set", "rigl-replaces", "rigl-itop", "set-authors")


def start(name: str, model: nn.Module | None = None, **options: Any) -> tuple[Trained, Rewiring]:
    method = VARIANTS[name]()
    options = {"density": 0.3, "optimizer": "adam-fused"} | options
    return attach(method, model or small_vit(), STEPS, **options), method


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("optimizer", ["adam-fused", "sgd-momentum"])
def test_dropped_entries_are_zero_and_counts_are_known(name: str, optimizer: str) -> None:
    trained, method = start(name, optimizer=optimizer)
    dense = sum(p.numel() for p in trained.model.parameters())
    before = [weight.active for weight in method.weights]
    updates = 0
    for step, _, update in trained.run(1, STEPS):
        assert bool(update) == ("update" in method.flags(step))
        updates += bool(update)
        on = [int(weight.mask.sum()) for weight in method.weights]
        assert method.active_parameters() == dense - DENSE_MATRICES + sum(on)
        assert [weight.active for weight in method.weights] == on
        if name in EXACT:
            assert on == before
        for weight in method.weights:
            assert not weight.parameter[~weight.mask].any()
    assert updates >= 10
    assert method.topology() == attach(RigL(), small_vit(), STEPS).method.topology()


@pytest.mark.parametrize("name", ["rigl", "set", "snfs"])
def test_start_is_exact_and_the_same_for_all(name: str) -> None:
    _, method = start(name)
    _, rigl = start("rigl")
    for weight, other in zip(method.weights, rigl.weights, strict=True):
        assert weight.active == weight.mask.numel() - int(0.7 * weight.mask.numel())
        assert torch.equal(weight.mask, other.mask)
    assert [weight.name for weight in method.weights[:4]] == [
        "blocks.0.attn.qkv.weight",
        "blocks.0.attn.proj.weight",
        "blocks.0.mlp.fc1.weight",
        "blocks.0.mlp.fc2.weight",
    ]


def test_start_mask_is_uniform() -> None:
    """Every entry is drawn about equally often over seeds."""
    drawn = np.zeros(40)
    for seed in range(400):
        drawn[numpy_generator(seed, "start mask", "w").permutation(40)[:12]] += 1
    assert abs(drawn - 120).max() < 45


@pytest.mark.parametrize("build", [small_vit, small_cct])
def test_srigl_has_one_fan_in_per_matrix(build: Any) -> None:
    trained, method = start("srigl", build())
    ablated = 0
    for _ in trained.run(1, STEPS):
        for weight in method.weights:
            fan_ins = weight.mask.sum(1)
            living = fan_ins[fan_ins > 0]
            assert len(set(living.tolist())) == 1
            ablated += len(fan_ins) - len(living)
    assert ablated > 0


def test_srigl_refuses_a_density_without_connections() -> None:
    with pytest.raises(BudgetError, match=r"srigl: blocks.0.*fan-in"):
        attach(SRigL(), small_vit(), STEPS, density=0.05)


def test_snfs_tracks_its_budget_and_moves_it() -> None:
    trained, method = start("snfs")
    for _ in trained.run(1, STEPS):
        total = sum(weight.active for weight in method.weights)
        assert abs(total - 0.3 * DENSE_MATRICES) <= 0.01 * DENSE_MATRICES
    shares = {weight.active / weight.mask.numel() for weight in method.weights}
    assert max(shares) - min(shares) > 0.05


def test_snfs_updates_at_the_end_of_each_epoch_but_the_last() -> None:
    trained, method = start("snfs")
    context = replace(method.context, total_steps=60, steps_per_epoch=4)
    method.bind(method.weights, trained.optimizer, context)
    assert list(method.schedule.update_steps()) == list(range(4, 60, 4))


@pytest.mark.parametrize("name", VARIANTS)
def test_gradient_need_and_window(name: str) -> None:
    _, method = start(name)
    dense = [t for t in range(1, STEPS + 1) if method.gradient_need(t) is GradientNeed.DENSE]
    assert dense == [t for t in range(1, STEPS + 1) if "dense_gradient" in method.flags(t)]
    if name in ("snfs", "snfs-size", "rigl-itop", "set-itop", "set-sparse-learning"):
        assert len(dense) == STEPS
    elif name.startswith("set"):
        assert dense == []
    else:
        updates = list(method.schedule.update_steps())
        assert set(updates) <= set(dense)
        assert len(dense) <= 2 * (len(updates) + 1)


@pytest.mark.parametrize("name", [n for n in VARIANTS if n not in ("snfs", "snfs-size")])
def test_gradients_that_were_not_asked_for_are_not_read(name: str) -> None:
    plain, (trained, method) = start(name)[0], start(name)
    for step in range(1, 25):
        plain.step(step)
        images, targets = batch(step)
        cross_entropy(trained.model(images), targets).backward()
        if method.gradient_need(step) is GradientNeed.ACTIVE:
            for weight in method.weights:
                assert weight.parameter.grad is not None
                weight.parameter.grad[~weight.mask] = 1e6
        finish(trained, step)
    assert_equal_models(plain.model, trained.model)


def finish(trained: Trained, step: int) -> None:
    """What follows a backward pass."""
    trained.method.after_backward(step)
    if not trained.method.replaces_optimizer_step(step):
        trained.optimizer.step()
    trained.method.update_topology(step)
    trained.method.after_step(step)
    trained.optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_determinism_and_no_global_random_state(name: str) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    one, other, again = start(name), start(name, seed=1), start(name)
    for trained, _ in (one, other, again):
        list(trained.run(1, STEPS))
    assert_equal_models(one[0].model, again[0].model)
    masks = [w.mask for w in one[1].weights], [w.mask for w in other[1].weights]
    assert not all(torch.equal(*pair) for pair in zip(*masks, strict=True))
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("optimizer", "stop"), [("adam-fused", 14), ("sgd-momentum", 17)])
def test_resumed_equals_uninterrupted(name: str, optimizer: str, stop: int) -> None:
    whole, method = start(name, optimizer=optimizer)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]
    half, first = start(name, optimizer=optimizer)
    list(half.run(1, stop))
    saved = {
        "method": first.state_dict(),
        "model": {key: tensor.clone() for key, tensor in half.model.state_dict().items()},
        "optimizer": deepcopy(half.optimizer.state_dict()),
    }
    # A snapshot stays what it is while training goes on.
    list(half.run(stop + 1, stop + 6))
    resumed, second = start(name, small_vit(seed=9), optimizer=optimizer)
    second.load_state_dict(saved["method"])
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    assert [loss for _, loss, _ in resumed.run(stop + 1, STEPS)] == losses[stop:]
    assert_equal_models(resumed.model, whole.model)
    for left, right in zip(second.state_tensors(), method.state_tensors(), strict=True):
        assert torch.equal(left, right)
    assert second.active_parameters() == method.active_parameters()


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_frozen_layer_stays_frozen(name: str) -> None:
    model = small_vit()
    trained, method = start(name, model)
    frozen = method.weights[2]
    frozen.parameter.requires_grad_(False)
    weight, mask = frozen.parameter.clone(), frozen.mask.clone()
    list(trained.run(1, STEPS))
    assert torch.equal(frozen.parameter, weight)
    assert torch.equal(frozen.mask, mask)
    assert frozen.active == int(mask.sum())


@pytest.mark.parametrize("name", VARIANTS)
def test_host_synchronisations(name: str) -> None:
    """None in steps and updates; SNFS and the Bernoulli rules of SET copy counts once an update."""
    trained, method = start(name)
    read = 0
    for step in range(1, STEPS + 1):
        images, targets = batch(step)
        with CountReads() as reads:
            cross_entropy(trained.model(images), targets).backward()
            finish(trained, step)
        update = "update" in method.flags(step)
        assert reads.seen in ([], ["tolist"] if update else [])
        read += len(reads.seen)
    updates = len(method.schedule.update_steps())
    if name in ("snfs", "snfs-size"):
        assert read == updates
    elif name in ("set-itop", "set-sparse-learning"):
        assert read == updates - 1
    else:
        assert read == 0


@pytest.mark.parametrize("name", VARIANTS)
def test_masks_take_one_byte_and_export_is_masked(name: str) -> None:
    trained, method = start(name)
    list(trained.run(1, 12))
    masks = [weight.mask for weight in method.weights]
    assert all(mask.element_size() == 1 for mask in masks)
    assert method.state_tensors()[: len(masks)] == tuple(masks)
    images, _ = batch(1)
    exported = method.export(trained.model)
    assert torch.equal(exported(images), trained.model(images))
    averaged = small_vit(seed=3)
    for weight in method.weights:
        out = method.export(averaged).get_parameter(weight.name)
        assert torch.equal(out, averaged.get_parameter(weight.name) * weight.mask)
        assert averaged.get_parameter(weight.name)[~weight.mask].all()


def test_grown_state_is_reset_or_left() -> None:
    for name, reset in (("rigl", False), ("rigl-erk-reset", True)):
        trained, method = start(name)
        first = method.schedule.interval
        list(trained.run(1, 3 * first - 1))
        old = [weight.mask.clone() for weight in method.weights]
        left = []
        for weight in method.weights:  # a stale second moment everywhere
            trained.optimizer.state[weight.parameter]["exp_avg_sq"].fill_(1.0)
        images, targets = batch(1)
        cross_entropy(trained.model(images), targets).backward()
        finish(trained, 3 * first)
        for weight, mask in zip(method.weights, old, strict=True):
            grown = weight.mask & ~mask
            left.append(trained.optimizer.state[weight.parameter]["exp_avg_sq"][grown])
        values = torch.cat(left)
        assert values.numel() > 0
        assert bool((values == 0).all()) == reset


def test_replacing_update_leaves_the_optimizer_out() -> None:
    trained, method = start("rigl-replaces")
    first = method.schedule.interval
    list(trained.run(1, first - 1))
    head = [p.clone() for p in trained.model.parameters() if p.ndim == 1]
    trained.step(first)
    assert method.replaces_optimizer_step(first)
    after = [p for p in trained.model.parameters() if p.ndim == 1]
    assert all(torch.equal(a, b) for a, b in zip(head, after, strict=True))


def test_snfs_needs_momentum() -> None:
    trained, _ = start("snfs", optimizer="sgd")
    with pytest.raises(ValueError, match="momentum"):
        list(trained.run(1, STEPS))


@pytest.mark.parametrize(
    ("config", "bad"),
    [
        (RigLConfig, {"rule": "other"}),
        (RigLConfig, {"alpha": 0.0}),
        (RigLConfig, {"stop": 1.5}),
        (RigLConfig, {"interval": -1}),
        (RigLConfig, {"min_updates": -1}),
        (RigLConfig, {"update_order": "before"}),
        (RigLConfig, {"dense_gradient_steps": 0}),
        (RigLConfig, {"distribution": "best"}),
        (RigLConfig, {"overhead": "some"}),
        (RigLConfig, {"overhead": "official", "rule": "nollied"}),
        (SetConfig, {"rule": "svite"}),
        (SetConfig, {"rate": "linear"}),
        (SnfsConfig, {"redistribution": "none"}),
        (SRigLConfig, {"gamma": -0.1}),
        (SRigLConfig, {"ablation_fan_in": "both"}),
    ],
)
def test_bad_hyperparameters(config: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        config(**bad)
