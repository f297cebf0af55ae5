"""S2ViTE's schedule, counts and exchange rules, by hand and as properties."""

from math import ceil
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.s2vite_config import S2viteConfig
from baselines.s2vite_rules import (
    ExchangeRule,
    exchange_channels,
    exchange_count,
    exchange_excluding_dropped,
    exchange_heads,
    head_token_sums,
)
from methods.scores import unit_sums

RULES = (exchange_heads, exchange_channels, exchange_excluding_dropped)


def mask(*units: int, of: int = 6) -> Tensor:
    active = torch.zeros(of, dtype=torch.bool)
    active[list(units)] = True
    return active


def active_units(new: Tensor) -> list[int]:
    return [unit for unit, on in enumerate(new.tolist()) if on]


def exchange(
    rule: ExchangeRule, drop: list[float], grow: list[float], on: Tensor, n: int
) -> list[int]:
    return active_units(rule(torch.tensor(drop), torch.tensor(grow), on, int(on.sum()), n))


def test_head_scores_by_hand() -> None:
    # Two samples, one token, two heads of two features.
    outputs = torch.tensor([[[[1.0, 2.0], [1.0, 1.0]]], [[[3.0, 1.0], [0.0, 0.0]]]])
    gradients = torch.tensor([[[[1.0, -1.0], [0.5, 0.5]]], [[[1.0, 2.0], [-4.0, 1.0]]]])
    features = head_token_sums(outputs.flatten(2), gradients.flatten(2))
    drop, grow = unit_sums(*features, unit_size=2, mean=False)
    assert drop.tolist() == [1.0 + 5.0, 1.0]
    assert grow.tolist() == [2.0 + 3.0, 1.0 + 5.0]


def test_a_dropped_head_may_come_back_at_once() -> None:
    drop = [9.0, 1.0, 5.0, 0.1, 0.1, 0.1]
    # Heads 1 and 2 go; of 1, 2, 3, 4 and 5 the two with the largest gradient come.
    assert exchange(exchange_heads, drop, [9.0, 7.0, 1.0, 2.0, 8.0, 3.0], mask(0, 1, 2), 2) == [
        0,
        1,
        4,
    ]


def test_heads_of_equal_scores_keep_the_lower_index() -> None:
    assert exchange(exchange_heads, [1.0] * 6, [0.0] * 6, mask(1, 3, 5), 2) == [0, 1, 2]


def test_channels_by_hand() -> None:
    drop = [4.0, 1.0, 2.0, 0.0, 0.0, 0.0]
    assert exchange(exchange_channels, drop, [0.0, 1.0, 2.0, 3.0, 0.5, 0.0], mask(0, 1, 2), 2) == [
        0,
        2,
        3,
    ]


def test_channels_tied_at_the_drop_threshold_all_go() -> None:
    # One is to go; 1 and 2 tie, so both do. One comes back.
    drop = [4.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert exchange(exchange_channels, drop, [0.0, 0.0, 0.0, 5.0, 0.0, 0.0], mask(0, 1, 2), 1) == [
        0,
        3,
    ]


def test_channels_tied_at_the_growth_threshold_all_come() -> None:
    drop = [4.0, 1.0, 2.0, 0.0, 0.0, 0.0]
    grow = [0.0, 3.0, 0.0, 3.0, 1.0, 0.0]
    assert exchange(exchange_channels, drop, grow, mask(0, 1, 2), 1) == [0, 1, 2, 3]
    assert exchange(exchange_channels, drop, [0.0] * 6, mask(0, 1, 2), 1) == [0, 1, 2, 3, 4, 5]


def test_excluding_dropped_moves_only_to_others() -> None:
    drop, grow = [4.0, 1.0, 2.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 1.0, 3.0, 2.0]
    assert exchange(exchange_excluding_dropped, drop, grow, mask(0, 1, 2), 2) == [0, 4, 5]
    # Five active of six: only one other can come, so only one goes.
    drop = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert exchange(exchange_excluding_dropped, drop, grow, mask(0, 1, 2, 3, 4), 3) == [
        0,
        1,
        2,
        3,
        5,
    ]


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_width_is_kept_where_nothing_ties(rule: ExchangeRule, data: st.DataObject) -> None:
    units = data.draw(st.integers(1, 12))
    width = data.draw(st.integers(1, units))
    order = data.draw(st.permutations(range(units)))
    active = mask(*order[:width], of=units)
    # Distinct scores; as in the method, inactive channels have drop score zero.
    drop = torch.tensor([float(n + 1) for n in data.draw(st.permutations(range(units)))])
    grow = torch.tensor([float(n + 1) for n in data.draw(st.permutations(range(units)))])
    count = exchange_count(data.draw(st.floats(0.005, 1.0)), width)
    new = rule(drop * active, grow, active, width, count)
    assert new.sum() == width >= 1
    if rule is exchange_excluding_dropped:
        assert (new & ~active).sum() == min(count, units - width)
    assert new.dtype == torch.bool


@pytest.mark.parametrize("rule", RULES)
def test_the_last_unit_is_never_lost(rule: ExchangeRule) -> None:
    for scores in ([0.0, 0.0, 0.0], [1.0, 0.0, 2.0]):
        values = torch.tensor(scores)
        assert rule(values, values, mask(1, of=3), 1, 1).any()


def test_a_full_run_updates_about_every_hundredth_of_it() -> None:
    config = S2viteConfig()
    assert config.interval(105_400) == 1054
    assert list(config.update_steps(105_400))[:2] == [1054, 2108]
    assert config.update_steps(105_400)[-1] < 84_320
    assert len(config.update_steps(105_400)) == 79
    assert config.interval(5000) == 100


@given(st.integers(13, 3000))
def test_short_runs_have_at_least_ten_updates(total_steps: int) -> None:
    config = S2viteConfig()
    steps = config.update_steps(total_steps)
    assert len(steps) >= config.minimum_updates
    assert steps[-1] < 0.8 * total_steps
    assert steps[0] == config.interval(total_steps) <= 100


def test_end_is_strict_and_exact() -> None:
    assert list(S2viteConfig(update_frequency=4, t_end=0.8).update_steps(60))[-1] == 44
    assert list(S2viteConfig(update_frequency=7, t_end=0.7).update_steps(10)) == []
    assert list(S2viteConfig(update_frequency=100).update_steps(60)) == []


def test_rate_falls_to_its_floor_at_the_end_of_the_run() -> None:
    config = S2viteConfig()
    rates = [config.death_rate(step, 100) for step in range(101)]
    assert rates[0] == 0.5
    assert rates[50] == pytest.approx((0.5 + 0.005) / 2)
    assert rates[100] == pytest.approx(0.005)
    assert rates == sorted(rates, reverse=True)
    assert exchange_count(rates[50], 10) == ceil(2.525)
    assert exchange_count(rates[100], 3) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"update_frequency": -1},
        {"update_fraction": 0.0},
        {"minimum_interval": 0},
        {"minimum_updates": 0},
        {"t_end": 1.5},
        {"initial_rate": 0.0},
        {"rate_floor": 0.6},
        {"overhead": "some"},
    ],
)
def test_bad_hyperparameters(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        S2viteConfig(**bad)
