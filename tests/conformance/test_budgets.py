"""Every registered method keeps the budget that it declares, and its masks mean what they say."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from bench.method_registry import METHODS, get_method
from methods.base import GradientNeed
from tests.conformance.test_methods import BUILDERS, STEPS, create, trained, weights
from tests.support.training import attach, batch, small_vit

pytestmark = pytest.mark.parametrize("name", METHODS)


@pytest.mark.parametrize("density", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("model", BUILDERS)
def test_declared_budget_is_kept(name: str, model: str, density: float) -> None:
    if not get_method(name).sparse:
        density = 1.0
    run = attach(create(name), BUILDERS[model](), STEPS, density)
    method = run.method
    assert method.budget_invariant.holds(method.active_parameters(), method.allowed_parameters())
    for _, _, update in run.run(1, STEPS):
        active, allowed = method.active_parameters(), method.allowed_parameters()
        assert method.budget_invariant.holds(active, allowed), (active, allowed)
        if not update:
            continue
        in_tensors = sum(parameter.numel() for parameter in run.model.parameters())
        masked = sum(int((~mask).sum()) for mask in method.masks().values())
        assert active == in_tensors - masked


@pytest.mark.parametrize("optimizer", ["adamw", "sgd-nesterov"])
def test_dropped_entries_have_no_effect(name: str, optimizer: str) -> None:
    """They are zero in the model; and an export ignores them, were they not."""
    run = trained(name, optimizer=optimizer)
    for step in range(1, STEPS + 1):
        run.step(step)
        for entry, mask in run.method.masks().items():
            assert not run.model.get_parameter(entry)[~mask].any(), (step, entry)
    images, _ = batch(99)
    run.model.eval()
    with torch.no_grad():
        expected = run.model(images)
        for entry, mask in run.method.masks().items():
            run.model.get_parameter(entry)[~mask] = 7.0
        exported = run.method.export(run.model).eval()
        torch.testing.assert_close(exported(images), expected, rtol=1e-9, atol=1e-10)
    assert bool(run.method.masks()) == (run.method.realisation == "masked")


@pytest.mark.parametrize("optimizer", ["adam", "adamw-fused", "sgd-momentum"])
def test_no_gradient_is_read_that_was_not_asked_for(name: str, optimizer: str) -> None:
    """Where a method needs gradients of active entries only, others may be anything."""
    clean, poisoned = (trained(name, optimizer=optimizer) for _ in range(2))
    generator = torch.Generator().manual_seed(1)
    spoilt = 0
    for step in range(1, STEPS + 1):
        clean.step(step)
        images, targets = batch(step)
        cross_entropy(poisoned.model(images), targets).backward()
        if poisoned.method.gradient_need(step) is GradientNeed.ACTIVE:
            for entry, mask in poisoned.method.masks().items():
                gradient = poisoned.model.get_parameter(entry).grad
                assert gradient is not None
                noise = 100 * torch.randn(gradient.shape, generator=generator).to(gradient)
                gradient[~mask] = noise[~mask]
                spoilt += 1
        poisoned.method.after_backward(step)
        poisoned.optimizer.step()
        poisoned.method.update_topology(step)
        poisoned.method.after_step(step)
        poisoned.optimizer.zero_grad(set_to_none=True)
        for key, value in weights(clean.model).items():
            assert torch.equal(poisoned.model.state_dict()[key], value), (step, key)
    for step in range(1, STEPS + 1):
        dense = poisoned.method.gradient_need(step) is GradientNeed.DENSE
        assert dense == ("dense_gradient" in poisoned.method.flags(step))
    if poisoned.method.masks():
        needs = {poisoned.method.gradient_need(step) for step in range(1, STEPS + 1)}
        assert bool(spoilt) == (GradientNeed.ACTIVE in needs)


def test_a_frozen_layer_keeps_its_mask(name: str) -> None:
    model = small_vit()
    for parameter in model.get_submodule("blocks.1").parameters():
        parameter.requires_grad_(False)
    density = 0.5 if get_method(name).sparse else 1.0
    run = attach(create(name), model, STEPS, density)
    if run.method.realisation == "compact":
        return
    before = {entry: mask.clone() for entry, mask in run.method.masks().items()}
    for step in range(1, STEPS + 1):
        run.step(step)
    for entry, mask in run.method.masks().items():
        if entry.startswith("blocks.1."):
            assert torch.equal(mask, before[entry]), entry
