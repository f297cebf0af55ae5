"""Physical removal and cloning on real layers."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from methods.compact import (
    Replaced,
    clone_in_layer,
    output_weights,
    remove_from_layer,
    split_noise,
)
from methods.units import HeadlessAttention, UnitLayer, UnsupportedModelError, find_layers
from tests.support.training import OPTIMIZERS, VIT, batch, small_cct, small_vit

MODELS = {"vit": small_vit, "cct": small_cct}
UNIT_TYPES = ("head", "channel")


def layers_of(model: nn.Module, unit_type: str) -> tuple[UnitLayer, ...]:
    heads, channels = find_layers(model)
    return heads if unit_type == "head" else channels


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return MODELS[request.param]()


@pytest.fixture(params=OPTIMIZERS)
def trained(request: pytest.FixtureRequest, model: nn.Module) -> Optimizer:
    """An optimizer with state, gradients still there."""
    optimizer = OPTIMIZERS[request.param](list(model.parameters()))
    images, targets = batch(1)
    for _ in range(2):
        optimizer.zero_grad()
        cross_entropy(model(images), targets).backward()
        optimizer.step()
    return optimizer


def unit(tensor: Tensor, layer: UnitLayer, name: str, index: int) -> Tensor:
    cut = next(cut for cut in layer.slices if cut.parameter == name)
    return cut.split(tensor.detach()).select(cut.unit_axis, index).clone()


@pytest.mark.parametrize("unit_type", UNIT_TYPES)
def test_clone_preserves_the_function(model: nn.Module, unit_type: str) -> None:
    """Parent and copy have equal features, and their output weights sum to the parent's: without
    noise nothing changes, and with noise nothing either, as the noise cancels."""
    images, _ = batch(1)
    before = model(images)
    optimizer = OPTIMIZERS["adam"](list(model.parameters()))
    layer = layers_of(model, unit_type)[1]
    weights = output_weights(layer, 2)
    noise = 0.1 * split_noise(weights, 1.0, torch.Generator().manual_seed(0))
    clone_in_layer(layer, optimizer, 2, torch.zeros_like(weights))
    torch.testing.assert_close(model(images), before, rtol=1e-12, atol=1e-12)
    clone_in_layer(layer, optimizer, 0, noise)
    torch.testing.assert_close(model(images), before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("unit_type", UNIT_TYPES)
def test_removal_equals_silencing(model: nn.Module, unit_type: str) -> None:
    images, _ = batch(1)
    layer = layers_of(model, unit_type)[2]
    for cut, parameter in layer.cuts():
        if cut.is_output:
            with torch.no_grad():
                cut.split(parameter).select(cut.unit_axis, 1).zero_()
    silenced = model(images)
    remove_from_layer(layer, OPTIMIZERS["adam"](list(model.parameters())), 1)
    torch.testing.assert_close(model(images), silenced, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("unit_type", UNIT_TYPES)
def test_tensors_are_physically_compact(
    model: nn.Module, trained: Optimizer, unit_type: str
) -> None:
    layer, other = layers_of(model, unit_type)[:2]
    width = layer.width
    places = [[id(p) for p in group["params"]] for group in trained.param_groups]
    new_names = {f"{layer.name}.{cut.parameter}" for cut in layer.slices}
    others = {name: p for name, p in model.named_parameters() if name not in new_names}
    other_data = {name: p.data_ptr() for name, p in others.items()}
    replaced = remove_from_layer(layer, trained, 1)
    assert layer.width == width - 1
    assert other.width == width
    assert_consistent(model, trained)
    # Only this layer's tensors are new, each in its old place.
    assert replaced.keys() == new_names
    for group, before in zip(trained.param_groups, places, strict=True):
        expected = {id(old): id(new) for old, new in replaced.values()}
        assert [id(p) for p in group["params"]] == [expected.get(i, i) for i in before]
    for name, parameter in model.named_parameters():
        if name not in new_names:
            assert parameter is others[name]
            assert parameter.data_ptr() == other_data[name]
    assert_nothing_stale(trained, replaced)
    # And the step that follows works.
    images, targets = batch(2)
    trained.zero_grad()
    cross_entropy(model(images), targets).backward()
    trained.step()
    assert_consistent(model, trained)


def assert_consistent(model: nn.Module, optimizer: Optimizer) -> None:
    """Modules, parameters, gradients and state have one shape."""
    for layer in (*find_layers(model)[0], *find_layers(model)[1]):
        for cut, parameter in layer.cuts():
            assert parameter.shape[cut.dim] == cut.blocks * cut.size * layer.width
            assert parameter.is_contiguous()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            assert module.weight.shape == (module.out_features, module.in_features)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()}
    for parameter, state in optimizer.state.items():
        assert id(parameter) in held
        for key, value in state.items():
            if key != "step" and value is not None:
                assert value.shape == parameter.shape


def assert_nothing_stale(optimizer: Optimizer, replaced: Replaced) -> None:
    for old, new in replaced.values():
        assert old not in optimizer.state
        assert new.grad is None
        assert not new._backward_hooks
        assert new.is_leaf


@pytest.mark.parametrize("unit_type", UNIT_TYPES)
def test_state_follows_its_unit(model: nn.Module, trained: Optimizer, unit_type: str) -> None:
    layer = layers_of(model, unit_type)[0]
    width = layer.width
    before = {
        (cut.parameter, key): [unit(value, layer, cut.parameter, i) for i in range(width)]
        for cut, parameter in layer.cuts()
        for key, value in trained.state[parameter].items()
        if key != "step" and value is not None
    }
    steps = {cut.parameter: trained.state[parameter].get("step") for cut, parameter in layer.cuts()}
    noise = torch.zeros_like(output_weights(layer, 1))
    clone_in_layer(layer, trained, 1, noise)
    remove_from_layer(layer, trained, 0)
    for cut, parameter in layer.cuts():
        state = trained.state[parameter]
        assert state.get("step") is steps[cut.parameter], "the step counter does not change"
        for key, value in state.items():
            if key == "step" or value is None:
                continue
            now = [unit(value, layer, cut.parameter, i) for i in range(width)]
            # Unit 0 went; the parent, 1, is first; the copy is last.
            assert not now[0].any()
            assert not now[-1].any()
            for place in range(1, width - 1):
                assert torch.equal(now[place], before[cut.parameter, key][place + 1])
                assert now[place].any()


def test_inherited_state_is_an_option(model: nn.Module) -> None:
    optimizer = OPTIMIZERS["adam"](list(model.parameters()))
    images, targets = batch(1)
    cross_entropy(model(images), targets).backward()
    optimizer.step()
    layer = layers_of(model, "channel")[0]
    weight = layer.module.get_parameter("fc1.weight")
    parent = optimizer.state[weight]["exp_avg"][3].clone()
    noise = torch.zeros_like(output_weights(layer, 3))
    clone_in_layer(layer, optimizer, 3, noise, inherit_state=True)
    state = optimizer.state[layer.module.get_parameter("fc1.weight")]["exp_avg"]
    assert torch.equal(state[3], parent)
    assert torch.equal(state[-1], parent)


def test_layer_without_heads_gives_its_projection_bias(model: nn.Module) -> None:
    optimizer = OPTIMIZERS["adam"](list(model.parameters()))
    layer = layers_of(model, "head")[1]
    while layer.width:
        remove_from_layer(layer, optimizer, 0)
    assert isinstance(layer.module, HeadlessAttention)
    tokens = torch.randn(3, 7, VIT.width, dtype=torch.float64, requires_grad=True)
    output = layer.module(tokens)
    bias = layer.module.get_parameter("proj.bias")
    assert torch.equal(output, bias.expand(3, 7, -1))
    output.sum().backward()
    assert bias.grad is not None
    assert torch.equal(bias.grad, torch.full_like(bias, 21.0))
    images, targets = batch(1)
    cross_entropy(model(images), targets).backward()
    optimizer.step()
    assert find_layers(model)[0][1].width == 0


def test_frozen_layer_stays_frozen(model: nn.Module) -> None:
    layer = layers_of(model, "channel")[0]
    for parameter in layer.module.parameters():
        parameter.requires_grad_(False)
    optimizer = OPTIMIZERS["adam"]([p for p in model.parameters() if p.requires_grad])
    remove_from_layer(layer, optimizer, 0)
    assert not any(parameter.requires_grad for parameter in layer.module.parameters())
    assert all(p.requires_grad for group in optimizer.param_groups for p in group["params"])


def test_noise_has_the_stated_scale() -> None:
    weights = torch.linspace(-3, 5, 20_000, dtype=torch.float64)
    noise = split_noise(weights, 1e-3, torch.Generator().manual_seed(1))
    rms = weights.square().mean().sqrt().item()
    assert noise.std().item() == pytest.approx(1e-3 * rms, rel=0.03)
    assert abs(noise.mean().item()) < 3e-5


def test_models_without_known_units_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="Sequential has no block"):
        find_layers(nn.Sequential(nn.Linear(2, 2)))
