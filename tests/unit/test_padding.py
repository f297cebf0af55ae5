"""FFN widths rounded up by zero channels: a run with them and one without are one computation."""

from copy import deepcopy

import pytest
import torch
from timm.layers.mlp import Mlp
from torch import Tensor, nn

from methods.barter import Barter
from methods.base import MethodContext
from methods.compact import (
    clone_in_layer,
    keep_in_layer,
    output_weights,
    remove_from_layer,
    resize_layer,
)
from methods.config import BarterConfig
from methods.padding import clear_padding
from methods.static import Static
from methods.units import UnitLayer, UnsupportedModelError, find_layers
from tests.support.training import (
    CCT,
    OPTIMIZERS,
    VIT,
    Trained,
    attach,
    batch,
    small_cct,
    small_vit,
)

STEPS = 60
BUSY = BarterConfig(beta=0.8, transfer_multiplier=24.0, window_start=0.1, window_end=0.9)
BUILD = {"vit": (small_vit, VIT), "cct": (small_cct, CCT)}


def parts(layer: UnitLayer, tensors: dict[str, Tensor]) -> tuple[dict, dict]:
    """The units' part of each of a layer's tensors, and what is behind it."""
    front, behind = {}, {}
    for cut in layer.slices:
        units = cut.split(tensors[cut.parameter])
        size = units.shape[cut.unit_axis]
        front[cut.parameter] = units.narrow(cut.unit_axis, 0, layer.width)
        behind[cut.parameter] = units.narrow(cut.unit_axis, layer.width, size - layer.width)
    return front, behind


def values(layer: UnitLayer) -> dict[str, Tensor]:
    return {cut.parameter: parameter.detach() for cut, parameter in layer.cuts()}


def test_widths_by_hand() -> None:
    model = small_vit()
    (layer, *_) = find_layers(model, pad_channels=4)[1]
    assert [layer.capacity(width) for width in (1, 4, 5, 20)] == [4, 4, 8, 20]
    optimizer = OPTIMIZERS["adam"](list(model.parameters()))
    rows = values(layer)["fc1.bias"].tolist()
    columns = values(layer)["fc2.weight"][0].tolist()
    assert (layer.width, layer.physical_width) == (20, 20)

    def expect(width: int, bias: list[float], weights: list[float]) -> None:
        assert (layer.width, layer.physical_width) == (width, len(bias))
        assert values(layer)["fc1.weight"].shape == (len(bias), 16)
        assert values(layer)["fc1.bias"].tolist() == bias
        assert values(layer)["fc2.weight"][0].tolist() == weights

    keep_in_layer(layer, optimizer, [3, 7, 9])
    expect(3, [rows[3], rows[7], rows[9], 0], [columns[3], columns[7], columns[9], 0])
    no_noise = torch.zeros_like(output_weights(layer, 0))
    clone_in_layer(layer, optimizer, 0, no_noise)  # into the padded slot
    half = columns[3] / 2
    expect(4, [rows[3], rows[7], rows[9], rows[3]], [half, columns[7], columns[9], half])
    clone_in_layer(layer, optimizer, 2, no_noise)  # there is none left: four more
    ninth = columns[9] / 2
    expect(
        5,
        [rows[3], rows[7], rows[9], rows[3], rows[9], 0, 0, 0],
        [half, columns[7], ninth, half, ninth, 0, 0, 0],
    )
    remove_from_layer(layer, optimizer, 1)  # back to four, in order
    expect(4, [rows[3], rows[9], rows[3], rows[9]], [half, ninth, half, ninth])
    remove_from_layer(layer, optimizer, 3)
    expect(3, [rows[3], rows[9], rows[3], 0], [half, ninth, half, 0])
    resize_layer(layer, optimizer, 6)
    expect(6, [0.0] * 8, [0.0] * 8)
    values(layer)["fc1.bias"].fill_(1)
    clear_padding([layer])
    expect(6, [1.0] * 6 + [0.0] * 2, [0.0] * 8)


def run_both(model_name: str, optimizer: str, decay: float) -> tuple[Trained, Trained]:
    build, shape = BUILD[model_name]
    plain = attach(Barter(BUSY), build(), STEPS, 0.5, optimizer, decay=decay)
    model = build()
    padded = Trained(model, OPTIMIZERS[optimizer](list(model.parameters())), Barter(BUSY), decay)
    context = MethodContext(shape, 0.5, STEPS, 0, pad_channels=4)
    padded.method.attach(model, padded.optimizer, context)
    return plain, padded


@pytest.mark.parametrize("decay", [-0.01, 0.01], ids=["decay-before", "decay-after"])
@pytest.mark.parametrize("optimizer", ["adam", "adam-amsgrad", "adamw-fused", "sgd-momentum"])
@pytest.mark.parametrize("model_name", BUILD)
def test_padded_equals_unpadded(model_name: str, optimizer: str, decay: float) -> None:
    plain, padded = run_both(model_name, optimizer, decay)
    slots_used, grown = 0, 0
    for (_, loss, update), (_, padded_loss, padded_update) in zip(
        plain.run(1, STEPS), padded.run(1, STEPS), strict=True
    ):
        assert padded_loss == pytest.approx(loss, rel=1e-10)
        assert padded_update.events == update.events
        for name, (old, new) in padded_update.replaced_parameters.items():
            if name.endswith("fc1.bias"):
                slots_used += old.shape == new.shape
                grown += old.shape != new.shape
        assert padded.method.topology() == plain.method.topology()
        assert padded.method.active_parameters() == plain.method.active_parameters()
        for a, b in zip(padded.method.state_tensors(), plain.method.state_tensors(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-14)
    assert slots_used >= 10, "transfers into and out of padded slots"
    assert grown >= 5, "and transfers that need a multiple more or less"
    assert_same_units(plain, padded)
    stored = sum(p.numel() for p in padded.model.parameters())
    zeros = padded.method.padded_channels(padded.method.topology())
    assert stored - padded.method.active_parameters() == sum(zeros) * (2 * 16 + 1)


def assert_same_units(plain: Trained, padded: Trained) -> None:
    """Weights and moments agree; behind them are zeros."""
    ours, theirs = padded.method.channel_layers, plain.method.channel_layers
    for layer, other in zip(ours, theirs, strict=True):
        assert layer.physical_width % 4 == 0
        assert other.physical_width == other.width == layer.width
        front, behind = parts(layer, values(layer))
        expected, _ = parts(other, values(other))
        assert not any(bool(zeros.any()) for zeros in behind.values())
        for name in front:
            torch.testing.assert_close(front[name], expected[name], rtol=1e-8, atol=1e-12)
        assert_same_state(plain, padded, layer, other)


def assert_same_state(plain: Trained, padded: Trained, layer: UnitLayer, other: UnitLayer) -> None:
    states = [
        {cut.parameter: trained.optimizer.state[parameter] for cut, parameter in of.cuts()}
        for trained, of in ((padded, layer), (plain, other))
    ]
    moments = [key for key in states[0]["fc1.weight"] if key != "step"]
    assert moments
    for key in moments:
        front, behind = parts(layer, {name: state[key] for name, state in states[0].items()})
        expected, _ = parts(other, {name: state[key] for name, state in states[1].items()})
        assert not any(bool(zeros.any()) for zeros in behind.values())
        for name in front:
            torch.testing.assert_close(front[name], expected[name], rtol=1e-7, atol=1e-14)
    steps = [state["fc1.weight"].get("step") for state in states]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("model_name", BUILD)
def test_padding_gets_no_gradient(model_name: str) -> None:
    _, padded = run_both(model_name, "adam", 0.0)
    images, targets = batch(1)
    nn.functional.cross_entropy(padded.model(images), targets).backward()
    assert sum(padded.method.padded_channels(padded.method.topology())) > 0
    for layer in padded.method.channel_layers:
        gradients = {}
        for cut, parameter in layer.cuts():
            assert parameter.grad is not None
            gradients[cut.parameter] = parameter.grad
        front, behind = parts(layer, gradients)
        assert all(bool(gradient.any()) for gradient in front.values())
        assert not any(bool(gradient.any()) for gradient in behind.values())


def test_an_exported_model_has_no_padding() -> None:
    _, padded = run_both("vit", "adam", 0.0)
    for _ in padded.run(1, 20):
        pass
    images, _ = batch(1)
    exported = padded.method.export(padded.model)
    active = padded.method.active_parameters()
    assert sum(p.numel() for p in exported.parameters()) == active
    assert sum(p.numel() for p in padded.model.parameters()) > active
    torch.testing.assert_close(exported(images), padded.model(images), rtol=1e-12, atol=1e-12)
    # And a copy made before padding was known of exports alike.
    again = padded.method.export(deepcopy(padded.model))
    assert sum(p.numel() for p in again.parameters()) == active


def test_resumed_equals_uninterrupted() -> None:
    _, whole = run_both("vit", "adam-fused", 0.01)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]
    _, half = run_both("vit", "adam-fused", 0.01)
    for _ in half.run(1, 30):
        pass
    _, resumed = run_both("vit", "adam-fused", 0.01)
    resumed.method.load_state_dict(half.method.state_dict())
    resumed.model.load_state_dict(half.model.state_dict())
    resumed.optimizer.load_state_dict(half.optimizer.state_dict())
    assert [loss for _, loss, _ in resumed.run(31, STEPS)] == losses[30:]


def test_full_size_layers_have_no_padding() -> None:
    model = small_vit()
    static = Static()
    static.attach(
        model,
        OPTIMIZERS["adam"](list(model.parameters())),
        MethodContext(VIT, 1.0, 10, 0, pad_channels=5),
    )
    assert [layer.physical_width for layer in static.channel_layers] == [20] * 4
    with pytest.raises(ValueError, match="16: it must divide the dense model's 20"):
        MethodContext(VIT, 1.0, 10, 0, pad_channels=16)
    with pytest.raises(ValueError, match="pad_channels is 0"):
        MethodContext(VIT, 1.0, 10, 0, pad_channels=0)


def test_an_activation_that_would_let_zeros_speak_is_refused() -> None:
    model = small_vit()
    model.blocks[1].mlp = Mlp(16, 20, act_layer=nn.Sigmoid).double()  # pyright: ignore
    find_layers(model)
    with pytest.raises(UnsupportedModelError, match="its activation of zero is not zero"):
        find_layers(model, pad_channels=4)
