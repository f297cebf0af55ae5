"""State that cannot be remapped is found before anything is changed."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.optim import NAdam, RMSprop

from methods.barter import Barter
from methods.compact import remove_from_layer
from methods.config import BarterConfig
from methods.optimizer_state import UnknownOptimizerStateError, replace_parameter
from methods.units import find_layers
from tests.support.training import Trained, attach, batch, small_vit


@pytest.mark.parametrize(
    ("optimizer_type", "key"), [(NAdam, "mu_product"), (RMSprop, "square_avg")]
)
def test_unknown_state_raises_and_changes_nothing(
    optimizer_type: type[NAdam] | type[RMSprop], key: str
) -> None:
    model = small_vit()
    optimizer = optimizer_type(list(model.parameters()))
    images, targets = batch(1)
    cross_entropy(model(images), targets).backward()
    optimizer.step()
    before = dict(model.named_parameters())
    with pytest.raises(
        UnknownOptimizerStateError, match=f"{optimizer_type.__name__} keeps '{key}'"
    ):
        remove_from_layer(find_layers(model)[1][0], optimizer, 0)
    assert all(parameter is before[name] for name, parameter in model.named_parameters())


def test_state_of_another_shape_raises() -> None:
    model = small_vit()
    layer = find_layers(model)[1][0]
    optimizer = torch.optim.Adam(model.parameters())
    weight = layer.module.get_parameter("fc1.weight")
    optimizer.state[weight] = {"exp_avg": torch.zeros(1)}
    with pytest.raises(UnknownOptimizerStateError, match=r"'exp_avg' of shape \(1,\)"):
        remove_from_layer(layer, optimizer, 0)


def test_barter_finds_it_at_the_first_step() -> None:
    model = small_vit()
    trained = attach(Barter(BarterConfig()), model, total_steps=100)
    optimizer = NAdam(list(model.parameters()))
    trained.method.optimizer = optimizer
    with pytest.raises(UnknownOptimizerStateError):
        Trained(model, optimizer, trained.method).step(1)


def test_parameter_that_the_optimizer_does_not_hold() -> None:
    held, frozen, new = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    optimizer = torch.optim.Adam([held])
    replace_parameter(optimizer, frozen, new, lambda state: state)
    assert optimizer.param_groups[0]["params"] == [held]
    assert not optimizer.state
