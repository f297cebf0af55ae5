"""S2ViTE's life on a model: budgets, invariants, determinism, synchronisations, resume."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from baselines.s2vite import (
    NOT_FINITE,
    AbstractS2vite,
    S2vite,
    S2viteExcludeDropped,
)
from baselines.s2vite_config import S2viteConfig
from baselines.s2vite_scores import FROZEN, UNSEEN
from methods.base import GradientNeed, TopologyEvent
from methods.budget import BudgetError
from methods.schedule import CHANNEL, HEAD
from methods.unit_masks import masked_cuts
from tests.support.reads import CountReads
from tests.support.training import (
    OPTIMIZERS,
    Trained,
    assert_equal_models,
    attach,
    batch,
    small_cct,
    small_vit,
)

KINDS = (S2vite, S2viteExcludeDropped)
OFFICIAL = S2viteConfig(overhead="official")
STEPS = 40
UPDATES = range(3, 32, 3)
"""What the default configuration makes of a run of `STEPS`."""


def trained(kind: type[AbstractS2vite] = S2vite, model: Any = None, **options: Any) -> Trained:
    return attach(kind(), small_vit() if model is None else model, STEPS, **options)


def s2vite(run: Trained) -> AbstractS2vite:
    assert isinstance(run.method, AbstractS2vite)
    return run.method


def events_of(run: Trained, last: int = STEPS) -> list[tuple[int, TopologyEvent]]:
    return [(step, event) for step, _, update in run.run(1, last) for event in update.events]


def inactive_entries(run: Trained) -> list[Tensor]:
    """The masked weights, and SGD's momentum, of everything that is off."""
    entries = []
    for mask in s2vite(run)._masks.values():
        for layer, active in zip(mask.layers, mask.active, strict=True):
            for cut, parameter in masked_cuts(layer):
                momentum = run.optimizer.state.get(parameter, {}).get("momentum_buffer")
                for tensor in (parameter.detach(), momentum):
                    if tensor is not None:
                        units = cut.split(tensor).movedim(cut.unit_axis, 0)
                        entries.append(units[~active])
    return entries


def unbiased_channels(model: nn.Module) -> nn.Module:
    """As published initialisations have it: no bias before the activation."""
    for name, parameter in model.named_parameters():
        if name.endswith("fc1.bias"):
            nn.init.zeros_(parameter)
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("build", [small_vit, small_cct])
@pytest.mark.parametrize(
    ("density", "heads", "channels"), [(0.01, 1, 1), (0.3, 1, 6), (0.5, 2, 10), (1.0, 4, 20)]
)
def test_every_block_keeps_its_budget(
    kind: type[AbstractS2vite], build: Any, density: float, heads: int, channels: int
) -> None:
    run = trained(kind, build(), density=density)
    model_size = sum(p.numel() for p in run.model.parameters())
    expected = model_size - 4 * ((4 - heads) * 3 * 4 * 16 + (20 - channels) * 2 * 16)
    executed = 0
    for _step, _loss, update in run.run(1, STEPS):
        topology = run.method.topology()
        assert topology.heads_per_layer == (heads,) * 4
        assert topology.channels_per_layer == (channels,) * 4
        assert run.method.active_parameters() == expected
        for mask in s2vite(run)._masks.values():
            assert mask.active.sum(1).tolist() == mask.widths
        assert not any(entries.any() for entries in inactive_entries(run))
        executed += bool(update) and all(event.executed for event in update.events)
    assert executed == len(UPDATES) == 10


@pytest.mark.parametrize("density", [0.0, 1.1])
def test_impossible_density(density: float) -> None:
    with pytest.raises(BudgetError, match="density"):
        trained(density=density)


@pytest.mark.parametrize("optimizer", ["adam", "sgd-momentum"])
def test_updates_and_gradients_come_when_scheduled(optimizer: str) -> None:
    """Adam's moments of inactive units live on dense gradients at every step; SGD's are masked."""
    run = trained(optimizer=optimizer)
    method = run.method
    for step in range(1, STEPS + 1):
        observed = any(module._forward_pre_hooks for module in run.model.modules())
        due = step in UPDATES
        assert observed == due
        dense = due or optimizer == "adam"
        flags = ("collecting", "update") * due + ("dense_gradient",) * dense
        assert method.flags(step) == flags
        assert method.gradient_need(step) is (GradientNeed.DENSE if dense else GradientNeed.ACTIVE)
        assert bool(run.step(step)[1]) == due


def test_published_rule_regrows_exactly_the_channels_that_it_dropped() -> None:
    run = trained(model=unbiased_channels(small_vit()))
    before = s2vite(run)._masks[CHANNEL].active.clone()
    events = events_of(run)
    assert torch.equal(s2vite(run)._masks[CHANNEL].active, before)
    moved = {
        kind: sum(e.grown for _, e in events if e.unit_type == kind) for kind in (HEAD, CHANNEL)
    }
    assert moved[CHANNEL] == 0 < moved[HEAD]


def test_excluding_dropped_moves_channels() -> None:
    run = trained(S2viteExcludeDropped, unbiased_channels(small_vit()))
    for _, event in events_of(run):
        assert event.dropped == event.grown > 0
        assert event.receiver_layer == event.donor_layer


def test_a_grown_unit_starts_at_zero_and_a_kept_one_stays() -> None:
    run = trained(S2viteExcludeDropped)
    for step in range(1, UPDATES[0]):
        run.step(step)
    images, targets = batch(UPDATES[0])
    cross_entropy(run.model(images), targets).backward()
    run.method.after_backward(UPDATES[0])
    run.optimizer.step()
    mask = s2vite(run)._masks[CHANNEL]
    layer, before = mask.layers[0], mask.active[0].clone()
    weight = layer.module.get_parameter("fc1.weight")
    stepped, bias = weight.detach().clone(), layer.module.get_parameter("fc1.bias").detach().clone()
    run.method.update_topology(UPDATES[0])
    run.method.after_step(UPDATES[0])
    after = mask.active[0]
    assert (after & ~before).any()
    assert torch.equal(weight[before & after], stepped[before & after])
    assert not weight[~(before & after)].any()
    assert torch.equal(layer.module.get_parameter("fc1.bias"), bias)


def test_adam_moments_are_neither_masked_nor_touched() -> None:
    run = trained(S2viteExcludeDropped, optimizer="adamw")
    step = UPDATES[0]
    for earlier in range(1, step):
        run.step(earlier)
    images, targets = batch(step)
    cross_entropy(run.model(images), targets).backward()
    run.method.after_backward(step)
    run.optimizer.step()
    qkv = s2vite(run).head_layers[0].module.get_parameter("qkv.weight")
    moments = {key: value.clone() for key, value in run.optimizer.state[qkv].items()}
    run.method.update_topology(step)
    run.method.after_step(step)
    for key, value in moments.items():
        assert torch.equal(run.optimizer.state[qkv][key], value)
    off = ~s2vite(run)._masks[HEAD].active[0]
    assert moments["exp_avg"].view(3, 4, 4, 16)[:, off].all()


@pytest.mark.parametrize("optimizer", ["sgd-momentum", "sgd-nesterov"])
def test_sgd_momentum_of_inactive_units_is_masked(optimizer: str) -> None:
    run = trained(optimizer=optimizer)
    for _ in run.run(1, UPDATES[1]):
        entries = inactive_entries(run)
        assert len(entries) == 2 * 4 * 3
        assert not any(tensor.any() for tensor in entries)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_everything(kind: type[AbstractS2vite]) -> None:
    one, two, other = trained(kind), trained(kind), trained(kind, seed=1)
    assert not torch.equal(s2vite(one)._masks[CHANNEL].active, s2vite(other)._masks[CHANNEL].active)
    assert events_of(one) == events_of(two)
    assert_equal_models(one.model, two.model)


def test_no_global_random_state_is_touched() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    expected, expected_np = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    events_of(trained())
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(np.random.rand(3), expected_np)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", ["adamw-fused", "sgd-momentum"])
@pytest.mark.parametrize("stop", [UPDATES[1], UPDATES[2] - 1])
def test_resumed_equals_uninterrupted(
    kind: type[AbstractS2vite], optimizer: str, stop: int
) -> None:
    whole = trained(kind, optimizer=optimizer)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]
    half = trained(kind, optimizer=optimizer)
    for step in range(1, stop + 1):
        half.step(step)
    saved = {
        "method": half.method.state_dict(),
        "model": {name: t.clone() for name, t in half.model.state_dict().items()},
        "optimizer": half.optimizer.state_dict(),
    }
    resumed = trained(kind, small_vit(seed=9), optimizer=optimizer, seed=0)
    resumed.method.load_state_dict(saved["method"])
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    assert [loss for _, loss, _ in resumed.run(stop + 1, STEPS)] == losses[stop:]
    assert_equal_models(resumed.model, whole.model)
    for left, right in zip(
        resumed.method.state_tensors(), whole.method.state_tensors(), strict=True
    ):
        assert torch.equal(left, right)


@pytest.mark.parametrize("kind", KINDS)
def test_one_host_synchronisation_per_update_and_none_elsewhere(
    kind: type[AbstractS2vite],
) -> None:
    run = trained(kind, optimizer="adam-fused")
    for step in range(1, STEPS + 1):
        images, targets = batch(step)
        with CountReads() as reads:
            loss = cross_entropy(run.model(images), targets)
            loss.backward()
            run.method.after_backward(step)
            run.optimizer.step()
            run.method.update_topology(step)
            run.method.after_step(step)
            run.optimizer.zero_grad(set_to_none=True)
            run.method.topology()
            run.method.active_parameters()
        assert reads.seen == ["cpu"] * (step in UPDATES)


def test_masks_take_one_byte_a_unit() -> None:
    masks = trained().method.state_tensors()[:2]
    assert [mask.element_size() * mask.numel() for mask in masks] == [4 * 4, 4 * 20]


def backward_parts(run: Trained, parts: int, scale: float) -> None:
    images, targets = batch(UPDATES[0], size=12)
    size = 12 // parts
    for start in range(0, 12, size):
        part = slice(start, start + size)
        (scale / parts * cross_entropy(run.model(images[part]), targets[part])).backward()


@pytest.mark.parametrize(("parts", "scale"), [(3, 1.0), (1, 1024.0), (4, 512.0)])
def test_accumulation_and_loss_scale_do_not_change_the_scores(parts: int, scale: float) -> None:
    observed = []
    for case in ((1, 1.0), (parts, scale)):
        run = trained(optimizer="sgd")
        method = s2vite(run)
        for step in range(1, UPDATES[0]):
            run.step(step)
        backward_parts(run, *case)
        method.after_backward(UPDATES[0], torch.tensor(case[1]))
        assert method._scores.heads is not None
        growth = [scores for scores in method._scores.channel_growth if scores is not None]
        observed.append((method._scores.heads, torch.stack(growth)))
    for expected, scores in zip(*observed, strict=True):
        torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-13)


def test_an_overflow_changes_nothing() -> None:
    run = trained(S2viteExcludeDropped)
    method, step = s2vite(run), UPDATES[0]
    for earlier in range(1, step):
        run.step(earlier)
    before = [mask.active.clone() for mask in method._masks.values()]
    backward_parts(run, 1, float("inf"))
    method.after_backward(step, float("inf"))
    events = method.update_topology(step).events
    assert {event.skip_reason for event in events} == {NOT_FINITE}
    assert all(event.dropped == event.grown == 0 for event in events)
    for mask, then in zip(method._masks.values(), before, strict=True):
        assert torch.equal(mask.active, then)


def test_an_update_without_gradients_is_skipped() -> None:
    run = trained()
    method = s2vite(run)
    method.after_backward(UPDATES[0])
    reasons = {event.skip_reason for event in method.update_topology(UPDATES[0]).events}
    assert reasons == {UNSEEN}


def test_frozen_layers_stay_as_they_start() -> None:
    model = small_vit()
    names = ("blocks.1.attn.qkv.weight", "blocks.2.mlp.fc1.weight")
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    run = trained(S2viteExcludeDropped, model)
    started = {name: model.get_parameter(name).detach().clone() for name in names}
    skipped = {
        (event.unit_type, event.receiver_layer): event.skip_reason
        for _, event in events_of(run)
        if not event.executed
    }
    assert skipped == {(HEAD, 1): FROZEN, (CHANNEL, 2): FROZEN}
    for name, weight in started.items():
        assert torch.equal(model.get_parameter(name), weight)


def test_bfloat16_autocast() -> None:
    model = small_vit().float()
    optimizer = OPTIMIZERS["adamw"](list(model.parameters()))
    run = trained(S2viteExcludeDropped, model)
    run.optimizer = optimizer
    for step in range(1, UPDATES[1] + 1):
        images, targets = batch(step)
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(model(images.float()), targets)
        loss.backward()
        run.method.after_backward(step)
        optimizer.step()
        update = run.method.update_topology(step)
        run.method.after_step(step)
        optimizer.zero_grad(set_to_none=True)
        assert all(event.executed and event.grown for event in update.events)
        assert loss.isfinite()


def test_explicit_interval() -> None:
    run = attach(S2vite(S2viteConfig(update_frequency=10)), small_vit(), STEPS)
    assert sorted({step for step, _ in events_of(run)}) == [10, 20, 30]


@pytest.mark.parametrize("build", [small_vit, small_cct])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd-momentum"])
def test_official_overhead_changes_no_result(build: Any, optimizer: str) -> None:
    lean = attach(S2vite(), build(), STEPS, optimizer=optimizer)
    official = attach(S2vite(OFFICIAL), build(), STEPS, optimizer=optimizer)
    assert list(lean.run(1, STEPS)) == list(official.run(1, STEPS))
    assert_equal_models(lean.model, official.model)
    exported = official.method.export(official.model)
    assert not any(module._forward_pre_hooks for module in exported.modules())
    assert_equal_models(exported, lean.method.export(lean.model))


def test_official_overhead_reads_every_head_in_every_forward() -> None:
    run = attach(S2vite(OFFICIAL), small_vit(), STEPS)
    heads, blocks = 4, 4
    for step in (1, 2, UPDATES[0], UPDATES[0] + 1):
        images, targets = batch(step)
        assert "collecting" in run.method.flags(step)
        with CountReads() as forward:
            loss = cross_entropy(run.model(images), targets)
        assert len(forward.seen) == heads * blocks
        with CountReads() as rest:
            loss.backward()
            run.method.after_backward(step)
        with CountReads() as updating:
            run.method.update_topology(step)
            run.method.after_step(step)
        assert not rest.seen
        # The published reads, and the one by which the harness learns what changed.
        assert len(updating.seen) == (19 * blocks + 1) * (step in UPDATES)
    with torch.no_grad(), CountReads() as evaluation:
        run.model(batch(1)[0])
    assert len(evaluation.seen) == heads * blocks
    resumed = attach(S2vite(OFFICIAL), small_vit(), STEPS)
    resumed.method.load_state_dict(run.method.state_dict())
    for left, right in zip(resumed.method.state_tensors(), run.method.state_tensors(), strict=True):
        assert torch.equal(left, right)
