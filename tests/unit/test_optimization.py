"""Learning rate and explicit weight decay."""

from dataclasses import replace
from math import cos, pi
from typing import Literal

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from bench.optimization import learning_rate, make_optimizer, set_rate, step_with_decay
from bench.workloads.recipes import VIT_DIGITS, Recipe

RECIPE: Recipe = replace(
    VIT_DIGITS, learning_rate=0.5, final_learning_rate=0.1, warm_up=0.2, weight_decay=0.1
)


def test_learning_rate_by_hand() -> None:
    # Ten steps, two of warm-up, then a cosine over eight from 0.5 towards 0.1.
    rates = [learning_rate(RECIPE, step, 10) for step in range(1, 11)]
    assert rates[:3] == pytest.approx([0.25, 0.5, 0.5])
    assert rates[6] == pytest.approx(0.3), "half-way between the two"
    assert rates[9] == pytest.approx(0.1 + 0.2 * (1 + cos(pi * 7 / 8)))
    assert rates[2:] == sorted(rates[2:], reverse=True)


def test_one_step_has_the_peak_rate() -> None:
    assert learning_rate(RECIPE, 1, 1) == 0.5


@pytest.mark.parametrize("order", ["before", "after"])
def test_decay_is_before_or_after_the_update(order: Literal["before", "after"]) -> None:
    recipe = replace(RECIPE, decay_order=order)
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(2.0)
        model.bias.fill_(2.0)
    optimizer = make_optimizer(model, recipe, torch.device("cpu"))
    model(torch.ones(1, 1)).sum().backward()
    set_rate(optimizer, 0.5)
    step_with_decay(optimizer, recipe, GradScaler(enabled=False))
    # Adam's first move is the rate (gradient positive), the decay a factor of 1 - 0.5 * 0.1.
    expected = 2.0 * 0.95 - 0.5 if order == "before" else (2.0 - 0.5) * 0.95
    assert model.weight.item() == pytest.approx(expected, rel=1e-6)
    assert model.bias.item() == pytest.approx(expected, rel=1e-6), "biases decay too"


def test_frozen_parameters_do_not_decay() -> None:
    model = nn.Linear(1, 1)
    model.bias.requires_grad_(False)
    before = model.bias.clone()
    optimizer = make_optimizer(model, RECIPE, torch.device("cpu"))
    model(torch.ones(1, 1)).sum().backward()
    set_rate(optimizer, 0.5)
    step_with_decay(optimizer, RECIPE, GradScaler(enabled=False))
    assert torch.equal(model.bias, before)
