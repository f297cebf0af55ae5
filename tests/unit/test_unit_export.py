"""Exact removal of masked units."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from baselines.s2vite import AbstractS2vite, S2vite, S2viteExcludeDropped
from bench.measure.macs import count_training_macs
from methods.unit_export import remove_inactive
from methods.units import find_layers
from tests.support.training import Trained, attach, batch, small_cct, small_vit

STEPS = 40


def exported_and_trained(kind: type[AbstractS2vite], model: nn.Module) -> tuple[nn.Module, Trained]:
    run = attach(kind(), model, STEPS, density=0.4)
    for _ in run.run(1, 25):
        pass
    return run.method.export(run.model), run


@pytest.mark.parametrize("biases", ["drawn", "zero", "absent"])
@pytest.mark.parametrize("kind", [S2vite, S2viteExcludeDropped])
@pytest.mark.parametrize("build", [small_vit, small_cct])
def test_exported_equals_masked(kind: type[AbstractS2vite], build: Any, biases: str) -> None:
    model = build()
    for layer in find_layers(model)[0]:
        projection: Any = layer.module.get_submodule("proj")
        if biases == "absent":
            projection.bias = None
    if biases == "zero":
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
    exported, run = exported_and_trained(kind, model)
    images, _ = batch(99)
    with torch.no_grad():
        torch.testing.assert_close(
            exported.eval()(images), run.model.eval()(images), rtol=1e-12, atol=1e-13
        )


def test_exported_tensors_have_the_active_shape() -> None:
    exported, run = exported_and_trained(S2vite, small_vit())
    heads, channels = find_layers(exported)
    topology = run.method.topology()
    assert tuple(layer.width for layer in heads) == topology.heads_per_layer == (1,) * 4
    assert tuple(layer.width for layer in channels) == topology.channels_per_layer == (8,) * 4
    removed = 4 * (3 * (4 * 16 * 4 + 3 * 4) + 12 * (2 * 16 + 1))
    full = sum(p.numel() for p in run.model.parameters())
    assert sum(p.numel() for p in exported.parameters()) == full - removed


def test_export_leaves_the_trained_model_alone() -> None:
    run = attach(S2vite(), small_vit(), STEPS)
    run.step(1)
    run.step(2)  # the next step ends in an update, so the heads are observed
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    exported = run.method.export(run.model)
    assert not any(module._forward_pre_hooks for module in exported.modules())
    assert any(module._forward_pre_hooks for module in run.model.modules())
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert run.step(3)[1].events[0].executed


def test_exported_model_trains_on_fewer_products() -> None:
    exported, run = exported_and_trained(S2vite, small_vit())
    images, targets = batch(1)

    def step(model: nn.Module) -> Any:
        return lambda: cross_entropy(model(images), targets)

    assert count_training_macs(step(exported)).training < (
        count_training_macs(step(run.model)).training
    )


def test_a_masked_head_leaves_its_value_bias_behind() -> None:
    model = small_vit()
    (layer, *_), _ = find_layers(model)
    attention: Any = layer.module
    value_bias = attention.qkv.bias.detach().view(3, 4, 4)[2].clone()
    columns = attention.proj.weight.detach().view(16, 4, 4).clone()
    bias = attention.proj.bias.detach().clone()
    remove_inactive(model, [[0, 2], *[[0, 1, 2, 3]] * 3], [list(range(20))] * 4)
    expected = bias + columns[:, 1] @ value_bias[1] + columns[:, 3] @ value_bias[3]
    torch.testing.assert_close(attention.proj.bias.detach(), expected, rtol=1e-12, atol=1e-14)
    assert attention.num_heads == 2
