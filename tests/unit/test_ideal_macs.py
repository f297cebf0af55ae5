"""Ideal MACs: by hand, and equal to executed ones where nothing inactive is computed."""

import pytest
from torch.nn.functional import cross_entropy

from bench.ideal_macs import ideal_training_macs
from bench.measure.macs import count_training_macs
from bench.method_registry import get_method
from bench.workloads.shapes import CctShape, VitShape
from tests.support.training import CCT, VIT, attach, batch, small_cct, small_vit

SHAPES = {"vit": VitShape(VIT, 8, 5, patch_size=4), "cct": CctShape(CCT, 8, 5)}
BUILDERS = {"vit": small_vit, "cct": small_cct}
STEPS = 30


@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize("name", ["dense", "static", "barter"])
def test_compact_methods_execute_the_ideal(name: str, model: str) -> None:
    density = 0.5 if name != "dense" else 1.0
    info = get_method(name)
    run = attach(info.create(info.config()), BUILDERS[model](), STEPS, density)
    for _ in run.run(1, STEPS):
        pass
    images, targets = batch(99)
    counted = count_training_macs(lambda: cross_entropy(run.model(images), targets))
    topology = run.method.topology()
    heads, channels = sum(topology.heads_per_layer), sum(topology.channels_per_layer)
    active = run.method.active_parameters()
    assert counted.training == 6 * ideal_training_macs(
        SHAPES[model], heads, channels, active, dense_gradient=False
    )


@pytest.mark.parametrize("model", SHAPES)
def test_single_masked_weights_save_their_products(model: str) -> None:
    shape = SHAPES[model]
    heads, channels = shape.blocks.total_heads, shape.blocks.total_channels
    dense, active = shape.macs_training(heads, channels), shape.parameters(heads, channels) - 10
    saved = [
        dense - ideal_training_macs(shape, heads, channels, active, dense_gradient)
        for dense_gradient in (False, True)
    ]
    # One product forward and two backward; the weight gradient's is back where it is dense.
    assert saved == [10 * 3 * shape.tokens, 10 * 2 * shape.tokens]


def test_units_save_everything_unless_their_gradient_is_wanted() -> None:
    shape = SHAPES["vit"]
    dense = shape.macs_training(16, 80)
    half = shape.parameters(8, 40) + 8 * 3 * 4 + 8 * 4 * 16  # biases, and projections unmasked
    assert ideal_training_macs(shape, 8, 40, half, False) == shape.macs_training(8, 40)
    assert ideal_training_macs(shape, 8, 40, half, True) == dense
