"""BARTER's life on a model: budgets, schedule, determinism, synchronisations, variants."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from methods.barter import AbstractBarter, Barter
from methods.barter_random import BarterRandomDonor, BarterRandomPair, BarterRandomReceiver
from methods.base import TopologyEvent
from methods.budget import TransformerShape
from methods.config import BarterConfig, CompactConfig
from methods.static import Static
from methods.units import find_layers
from tests.support.reads import CountReads
from tests.support.training import Trained, assert_equal_models, attach, batch, small_cct, small_vit

VARIANTS = (Barter, BarterRandomReceiver, BarterRandomDonor, BarterRandomPair)
BUSY = BarterConfig(transfer_multiplier=12.0)
STEPS = 60


def trained_barter(
    kind: type[AbstractBarter] = Barter, config: BarterConfig = BUSY, **options: Any
) -> Trained:
    return attach(kind(config), small_vit(), STEPS, **options)


def events_of(trained: Trained, last: int = STEPS) -> list[tuple[int, TopologyEvent]]:
    return [(step, event) for step, _, update in trained.run(1, last) for event in update.events]


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize(("build", "channel_transfers"), [(small_vit, 30), (small_cct, 28)])
def test_budgets_are_kept_to_the_unit(
    kind: type[AbstractBarter], build: Any, channel_transfers: int
) -> None:
    trained = attach(kind(BUSY), build(), STEPS)
    method = trained.method
    first = method.topology()
    parameters = method.active_parameters()
    executed = {"head": 0, "channel": 0}
    for _step, _loss, update in trained.run(1, STEPS):
        now = method.topology()
        assert sum(now.heads_per_layer) == sum(first.heads_per_layer)
        assert sum(now.channels_per_layer) == sum(first.channels_per_layer)
        assert max(now.heads_per_layer) <= method.context.shape.heads
        assert max(now.channels_per_layer) <= method.context.shape.channels
        assert min(now.channels_per_layer) >= 1
        assert method.active_parameters() == parameters
        assert sum(p.numel() for p in trained.model.parameters()) == parameters
        for event in update.events:
            executed[event.unit_type] += event.executed
    scheduled = method.scheduled_transfers()
    assert scheduled == {"head": 6, "channel": channel_transfers}
    assert 0 < executed["head"] <= scheduled["head"]
    assert 0 < executed["channel"] <= scheduled["channel"]


def test_transfers_come_when_scheduled() -> None:
    trained = trained_barter()
    flagged = [step for step in range(1, STEPS + 1) if "update" in trained.method.flags(step)]
    events = events_of(trained)
    assert sorted({step for step, _ in events}) == flagged
    assert min(flagged) >= 6
    assert max(flagged) == 24
    # Heads first where both types fall on one step.
    both = [s for s in flagged if {e.unit_type for t, e in events if t == s} == {"head", "channel"}]
    assert both
    for step in both:
        kinds = [event.unit_type for t, event in events if t == step]
        assert kinds == sorted(kinds, reverse=True)


def test_collection_ends_after_the_last_proposal_of_each_type() -> None:
    trained = trained_barter()
    consumers = {
        name: [layer.module.get_submodule(layer.consumer) for layer in layers]
        for name, layers in zip(("head", "channel"), find_layers(trained.model), strict=True)
    }
    steps = {name: [] for name in consumers}
    for step in range(1, STEPS + 1):
        for name, modules in consumers.items():
            if any(module._forward_pre_hooks for module in modules):
                steps[name].append(step)
        assert ("collecting" in trained.method.flags(step)) == (step in steps["channel"])
        before = [tensor.clone() for tensor in trained.method.state_tensors()]
        trained.step(step)
        if step > 24:
            for tensor, then in zip(trained.method.state_tensors(), before, strict=True):
                assert torch.equal(tensor, then)
    # Six head proposals sit on midpoints of 6 to 24, the last at 22.5; channels end at 24.
    assert steps == {"head": list(range(1, 24)), "channel": list(range(1, 25))}


def test_static_and_barter_start_bit_identical() -> None:
    barter, static = trained_barter(), attach(Static(), small_vit(), STEPS)
    other_seed = attach(Static(), small_vit(), STEPS, seed=1)
    assert_equal_models(barter.model, static.model)
    assert [barter.step(step)[0] for step in range(1, 6)] == [
        static.step(step)[0] for step in range(1, 6)
    ]
    assert_equal_models(barter.model, static.model)
    first = find_layers(other_seed.model)[1][0].module.get_parameter("fc1.bias")
    assert not torch.equal(first, find_layers(static.model)[1][0].module.get_parameter("fc1.bias"))


@pytest.mark.parametrize("kind", VARIANTS)
def test_two_runs_of_one_seed_are_identical(kind: type[AbstractBarter]) -> None:
    one, two = trained_barter(kind), trained_barter(kind)
    assert events_of(one) == events_of(two)
    assert_equal_models(one.model, two.model)


def test_no_global_random_state_is_touched() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    expected, expected_np = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    model = small_vit()
    events_of(attach(BarterRandomPair(BUSY), model, STEPS))
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(np.random.rand(3), expected_np)


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("build", [small_vit, small_cct])
@pytest.mark.parametrize("optimizer", ["adam-fused", "sgd-momentum"])
def test_resumed_between_transfers_equals_uninterrupted(
    kind: type[AbstractBarter], build: Any, optimizer: str
) -> None:
    whole = attach(kind(BUSY), build(), STEPS, optimizer=optimizer)
    losses = [loss for _, loss, _ in whole.run(1, STEPS)]

    half = attach(kind(BUSY), build(), STEPS, optimizer=optimizer)
    stop = 15
    for step in range(1, stop + 1):
        half.step(step)
    assert half.method.topology() != attach(Static(), build(), STEPS).method.topology()
    saved = {
        "method": half.method.state_dict(),
        "model": {name: t.clone() for name, t in half.model.state_dict().items()},
        "optimizer": half.optimizer.state_dict(),
    }
    resumed = attach(kind(BUSY), build(seed=9), STEPS, optimizer=optimizer)
    resumed.method.load_state_dict(saved["method"])
    resumed.model.load_state_dict(saved["model"])
    resumed.optimizer.load_state_dict(saved["optimizer"])
    assert [loss for _, loss, _ in resumed.run(stop + 1, STEPS)] == losses[stop:]
    assert_equal_models(resumed.model, whole.model)
    for left, right in zip(
        resumed.method.state_tensors(), whole.method.state_tensors(), strict=True
    ):
        assert torch.equal(left, right)


def test_state_of_a_finished_collection_resumes_without_hooks() -> None:
    done = trained_barter()
    events_of(done)
    resumed = trained_barter()
    resumed.method.load_state_dict(done.method.state_dict())
    assert not any(module._forward_pre_hooks for module in resumed.model.modules())


def test_one_host_synchronisation_per_transfer_and_none_elsewhere() -> None:
    trained = trained_barter(optimizer="adam-fused")
    for step in range(1, 30):
        images, targets = batch(step)
        with CountReads() as reads:
            loss = cross_entropy(trained.model(images), targets)
            loss.backward()
            trained.method.after_backward(step)
            trained.optimizer.step()
            update = trained.method.update_topology(step)
            trained.method.after_step(step)
            trained.optimizer.zero_grad(set_to_none=True)
        assert reads.seen == ["cpu"] * len(update.events)


def test_skipped_transfer_is_an_event_with_a_reason() -> None:
    # Two layers of two heads, one head active in each. The first transfer leaves one layer
    # empty and fills the other, so that the second finds no layer that could receive.
    shape = TransformerShape(layers=2, width=16, heads=2, head_dim=8, channels=20, qkv_bias=True)
    config = BarterConfig(transfer_multiplier=13.0)
    trained = attach(Barter(config), small_vit(shape=shape), STEPS, shape=shape)
    assert trained.method.topology().heads_per_layer == (1, 1)
    first, second = [event for _, event in events_of(trained) if event.unit_type == "head"]
    assert first.executed
    assert second == TopologyEvent("head", skip_reason="no eligible receiver")
    assert sorted(trained.method.topology().heads_per_layer) == [0, 2]


def test_update_names_what_it_replaced() -> None:
    trained = trained_barter()
    previous = dict(trained.model.named_parameters())
    for _, _, update in trained.run(1, STEPS):
        now = dict(trained.model.named_parameters())
        changed = {name for name in now if now[name] is not previous[name]}
        assert changed == update.replaced_parameters.keys()
        for name, (old, new) in update.replaced_parameters.items():
            assert (old, new) == (previous[name], now[name]) or old is previous[name]
            assert new is now[name]
        previous = now


def test_initial_units_by_magnitude_and_fan_in() -> None:
    dense = small_vit()
    largest = attach(Static(CompactConfig(initial_units="magnitude")), small_vit(), STEPS)
    layer = find_layers(largest.model)[1][0]
    rows = find_layers(dense)[1][0].module
    energy = sum(
        (
            rows.get_parameter("fc1.weight").square().sum(1),
            rows.get_parameter("fc1.bias").square(),
            rows.get_parameter("fc2.weight").square().sum(0),
        )
    )
    kept = energy.argsort(descending=True)[: layer.width].sort().values  # pyright: ignore
    assert torch.equal(
        layer.module.get_parameter("fc1.weight"), rows.get_parameter("fc1.weight")[kept]
    )
    scaled = attach(Static(CompactConfig(fan_in="compact")), small_vit(), STEPS)
    plain = attach(Static(), small_vit(), STEPS)
    ratio = (20 / layer.width) ** 0.5
    for model, factor in ((scaled.model, ratio), (plain.model, 1.0)):
        module = find_layers(model)[1][0].module
        base = find_layers(plain.model)[1][0].module
        torch.testing.assert_close(
            module.get_parameter("fc2.weight"), factor * base.get_parameter("fc2.weight")
        )
        assert torch.equal(module.get_parameter("fc1.weight"), base.get_parameter("fc1.weight"))


@pytest.mark.parametrize(
    "bad",
    [
        {"beta": 1.0},
        {"window_start": 0.5, "window_end": 0.4},
        {"transfer_multiplier": 0.0},
        {"noise_scale": -1.0},
        {"clone_state": "other"},
        {"initial_units": "best"},
    ],
)
def test_bad_hyperparameters(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad)).split("_")[0]):
        BarterConfig(**bad)
