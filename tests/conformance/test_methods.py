"""What every registered method must do, whatever it is: present ones and those to come."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bench.method_registry import METHODS, get_method
from methods.base import SparseMethod, Topology, UpdateOrder
from methods.units import find_layers
from tests.support.training import Trained, attach, batch, small_cct, small_vit

STEPS, DENSITY = 60, 0.5
BUILDERS: dict[str, Callable[..., nn.Module]] = {"vit": small_vit, "cct": small_cct}

pytestmark = pytest.mark.parametrize("name", METHODS)


def create(name: str) -> SparseMethod:
    info = get_method(name)
    return info.create(info.config())


def trained(name: str, model: str = "vit", seed: int = 0, **options: Any) -> Trained:
    density = DENSITY if get_method(name).sparse else 1.0
    return attach(create(name), BUILDERS[model](), STEPS, density, seed=seed, **options)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    for key in left:
        assert torch.equal(left[key], right[key]), key


def test_registered_name_and_config(name: str) -> None:
    method = create(name)
    assert method.name == name
    assert type(method.config) is get_method(name).config is method.config_type
    assert get_method(name).masked == (method.realisation == "masked")


@pytest.mark.parametrize("model", BUILDERS)
def test_dynamic_methods_change_and_others_do_not(name: str, model: str) -> None:
    run = trained(name, model)
    flagged, executed = [], []
    for step in range(1, STEPS + 1):
        if "update" in run.method.flags(step):
            flagged.append(step)
        _, update = run.step(step)
        if update:
            executed.append(step)
            assert any(event.executed or event.skip_reason for event in update.events)
    assert bool(executed) == run.method.is_dynamic
    assert set(executed) <= set(flagged), "an update comes only in a step flagged so"
    assert (run.method.update_order is UpdateOrder.NEVER) == (not run.method.is_dynamic)


@pytest.mark.parametrize("model", BUILDERS)
def test_topology_matches_the_tensors(name: str, model: str) -> None:
    run = trained(name, model)
    for step in range(1, STEPS + 1):
        run.step(step)
        heads, channels = find_layers(run.model)
        held = Topology(
            tuple(layer.width for layer in heads), tuple(layer.width for layer in channels)
        )
        topology = run.method.topology()
        if run.method.realisation == "compact":
            assert topology == held
            stored = sum(p.numel() for p in run.model.parameters())
            assert run.method.active_parameters() == stored
        else:
            assert all(
                0 <= mine <= full
                for mine, full in zip(
                    topology.heads_per_layer + topology.channels_per_layer,
                    held.heads_per_layer + held.channels_per_layer,
                    strict=True,
                )
            )


@pytest.mark.parametrize("model", BUILDERS)
def test_same_seed_same_run(name: str, model: str) -> None:
    one, two = trained(name, model, seed=4), trained(name, model, seed=4)
    losses = [loss for _, loss, _ in one.run(1, STEPS)]
    assert losses == [loss for _, loss, _ in two.run(1, STEPS)]
    assert_same(weights(one.model), weights(two.model))


def test_seed_decides_the_start_of_sparse_methods(name: str) -> None:
    one, two = trained(name, seed=1), trained(name, seed=2)
    same = one.step(1)[0] == two.step(1)[0]
    assert same == (not get_method(name).sparse)


def test_no_global_random_state_is_touched(name: str) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    expected, expected_numpy = torch.rand(3), np.random.rand(3)
    model = small_vit()
    torch.manual_seed(5)
    np.random.seed(5)
    density = DENSITY if get_method(name).sparse else 1.0
    run = attach(create(name), model, STEPS, density)
    for step in range(1, STEPS + 1):
        run.step(step)
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(np.random.rand(3), expected_numpy)


@pytest.mark.parametrize("optimizer", ["adam", "adamw-fused", "sgd-momentum"])
@pytest.mark.parametrize("stop", [1, 17, 40])
def test_resumed_equals_uninterrupted(name: str, optimizer: str, stop: int) -> None:
    whole = trained(name, optimizer=optimizer)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]
    half = trained(name, optimizer=optimizer)
    for step in range(1, stop + 1):
        half.step(step)
    method, model = half.method.state_dict(), weights(half.model)
    resumed = trained(name, optimizer=optimizer)
    resumed.method.load_state_dict(method)
    resumed.model.load_state_dict(model)
    resumed.optimizer.load_state_dict(half.optimizer.state_dict())
    assert [loss for _, loss, _ in resumed.run(stop + 1, STEPS)] == losses[stop:]
    assert_same(weights(resumed.model), weights(whole.model))
    assert resumed.method.topology() == whole.method.topology()


@pytest.mark.parametrize("model", BUILDERS)
@pytest.mark.parametrize("stop", [0, 15, STEPS])
def test_export_computes_the_same(name: str, model: str, stop: int) -> None:
    run = trained(name, model)
    for step in range(1, stop + 1):
        run.step(step)
    exported = run.method.export(run.model).eval()
    images, _ = batch(99)
    with torch.no_grad():
        torch.testing.assert_close(exported(images), run.model(images), rtol=1e-9, atol=1e-10)
    assert not any(module._forward_pre_hooks for module in exported.modules())
    assert all(parameter.grad is None for parameter in exported.parameters())
    # It stands alone: training on does not move it.
    before = weights(exported)
    if stop < STEPS:
        run.step(stop + 1)
        assert_same(weights(exported), before)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_clipping_and_accumulation(name: str, micro_batches: int) -> None:
    run = trained(name)
    for step in range(1, STEPS + 1):
        images, targets = batch(step, size=6)
        for part in range(micro_batches):
            rows = slice(part * 6 // micro_batches, (part + 1) * 6 // micro_batches)
            loss = cross_entropy(run.model(images[rows]), targets[rows]) / micro_batches
            loss.backward()
        run.method.after_backward(step)
        nn.utils.clip_grad_norm_(run.model.parameters(), 1.0)
        run.optimizer.step()
        run.method.update_topology(step)
        run.method.after_step(step)
        run.optimizer.zero_grad(set_to_none=True)
    assert all(bool(torch.isfinite(p).all()) for p in run.model.parameters())


def test_accumulation_gives_the_whole_minibatchs_run(name: str) -> None:
    """Two micro-batches decide what one minibatch does, and step as it does, to rounding."""
    finals = []
    for micro_batches in (1, 2):
        run = trained(name, optimizer="sgd-momentum")
        events = []
        for step in range(1, STEPS + 1):
            images, targets = batch(step, size=6)
            for part in torch.arange(6).chunk(micro_batches):
                (cross_entropy(run.model(images[part]), targets[part]) / micro_batches).backward()
            run.method.after_backward(step)
            run.optimizer.step()
            events.append(run.method.update_topology(step).events)
            run.method.after_step(step)
            run.optimizer.zero_grad(set_to_none=True)
        finals.append((events, weights(run.model)))
    assert finals[0][0] == finals[1][0]
    for key, value in finals[0][1].items():
        torch.testing.assert_close(finals[1][1][key], value, rtol=1e-7, atol=1e-9)


def test_bfloat16_autocast(name: str) -> None:
    density = DENSITY if get_method(name).sparse else 1.0
    run = attach(create(name), small_vit().float(), STEPS, density)
    for step in range(1, STEPS + 1):
        images, targets = batch(step)
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(run.model(images.float()), targets)
        loss.backward()
        run.method.after_backward(step)
        run.optimizer.step()
        run.method.update_topology(step)
        run.method.after_step(step)
        run.optimizer.zero_grad(set_to_none=True)
        assert bool(torch.isfinite(loss))


@pytest.mark.parametrize("part", ["attn", "mlp"])
def test_frozen_layer_stays_frozen(name: str, part: str) -> None:
    model = small_vit()
    frozen = model.get_submodule(f"blocks.1.{part}")
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    density = DENSITY if get_method(name).sparse else 1.0
    run = attach(create(name), model, STEPS, density)
    values = {round(v, 12) for p in frozen.parameters() for v in p.flatten().tolist()}
    for step in range(1, STEPS + 1):
        run.step(step)
    now = list(model.get_submodule(f"blocks.1.{part}").parameters())
    assert not any(parameter.requires_grad for parameter in now)
    if not run.method.is_dynamic:
        assert {round(v, 12) for p in now for v in p.flatten().tolist()} == values
