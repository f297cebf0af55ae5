"""A compact run and a masked full-size run that take the same decisions are one computation.

The strongest test of removal, cloning, scores, optimizer state and cooldown together.
"""

from collections import Counter

import pytest
import torch
from torch.nn.functional import cross_entropy

from methods.allocation import initial_units
from methods.barter import Barter
from methods.budget import spread, unit_budget
from methods.config import BarterConfig
from methods.schedule import cooldown_steps, proposal_steps, transfer_count
from methods.units import find_layers
from tests.support.masked_reference import MaskedBarter
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

STEPS, DENSITY, SEED = 70, 0.5, 3
CONFIG = BarterConfig(beta=0.8, window_start=0.1, window_end=0.9, transfer_multiplier=24.0)

MODELS = {"vit": (small_vit, VIT), "cct": (small_cct, CCT)}


def masked_twin(
    model_name: str, optimizer: str
) -> tuple[Trained, MaskedBarter, dict[str, Counter]]:
    build, shape = MODELS[model_name]
    model = build(SEED)
    budget = unit_budget(shape, DENSITY)
    head_layers, channel_layers = find_layers(model)
    kept, cooldown, proposals = {}, {}, {}
    for name, layers, units, maximum in (
        ("head", head_layers, budget.heads, shape.heads),
        ("channel", channel_layers, budget.channels, shape.channels),
    ):
        widths = spread(units, shape.layers)
        kept[name] = initial_units(layers, widths, "random", SEED)
        count = transfer_count(name, widths, maximum, CONFIG.transfer_multiplier)
        proposals[name] = Counter(proposal_steps(name, count, STEPS, CONFIG.window))
        cooldown[name] = cooldown_steps(name, count, STEPS, CONFIG.window)
    masked = MaskedBarter(
        model,
        OPTIMIZERS[optimizer](list(model.parameters())),
        kept,
        CONFIG.beta,
        CONFIG.noise_scale,
        cooldown,
        {name: max(steps) for name, steps in proposals.items()},
        SEED,
    )
    return Trained(model, masked.optimizer, Barter()), masked, proposals


@pytest.mark.parametrize("decay", [-0.01, 0.01], ids=["decay-before", "decay-after"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw-fused", "sgd-momentum"])
@pytest.mark.parametrize("model_name", MODELS)
def test_masked_equals_compact(model_name: str, optimizer: str, decay: float) -> None:
    build, _ = MODELS[model_name]
    compact = attach(Barter(CONFIG), build(SEED), STEPS, DENSITY, optimizer, seed=SEED, decay=decay)
    full, masked, proposals = masked_twin(model_name, optimizer)
    full.decay = decay
    transfers: Counter[str] = Counter()
    narrowest = {"head": 99, "channel": 99}
    for step, loss, update in compact.run(1, STEPS):
        images, targets = batch(step)
        full_loss = cross_entropy(full.model(images), targets)
        full_loss.backward()
        masked.after_backward(step)
        if decay < 0:
            full._decay()
        full.optimizer.step()
        if decay > 0:
            full._decay()
        events = iter(update.events)
        for unit_type in ("head", "channel"):
            for attempt in range(proposals[unit_type][step]):
                chosen, event = masked.transfer(unit_type, step, attempt), next(events)
                assert (event.unit_type, event.executed) == (unit_type, True)
                assert (event.receiver_layer, event.parent_unit) == (chosen.receiver, chosen.parent)
                assert (event.donor_layer, event.donor_unit) == (
                    chosen.donor_layer,
                    chosen.donor_unit,
                )
                transfers[unit_type] += 1
        assert next(events, None) is None
        full.optimizer.zero_grad(set_to_none=True)
        assert loss == pytest.approx(full_loss.item(), rel=1e-9)
        topology = compact.method.topology()
        narrowest["head"] = min(narrowest["head"], *topology.heads_per_layer)
        narrowest["channel"] = min(narrowest["channel"], *topology.channels_per_layer)
    assert transfers["head"] >= 10
    assert transfers["channel"] >= 10
    assert narrowest["head"] == 0, "the test must see a layer lose its last head"
    assert_same_weights(compact, masked)


def assert_same_weights(compact: Trained, masked: MaskedBarter) -> None:
    head_layers, channel_layers = find_layers(compact.model)
    for layers, references in (
        (head_layers, masked.layers["head"]),
        (channel_layers, masked.layers["channel"]),
    ):
        for layer, reference in zip(layers, references, strict=True):
            assert layer.width == len(reference.slots)
            for cut, parameter in layer.cuts():
                units = cut.split(parameter.detach()).movedim(cut.unit_axis, 0)
                full = reference.module.get_parameter(cut.parameter).detach()
                size = full.shape[cut.dim] // (cut.blocks * reference.total)
                expected = full.unflatten(cut.dim, (cut.blocks, reference.total, size))
                expected = expected.movedim(cut.unit_axis, 0)[reference.slots]
                torch.testing.assert_close(units, expected, rtol=1e-8, atol=1e-10)
