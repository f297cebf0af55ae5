"""Budget invariants: hand-computed, and on rules that no conformance run uses."""

import pytest

from bench.method_registry import get_method
from methods.invariant import AT_LEAST, AT_MOST, EXACT, BudgetInvariant, tracks
from tests.support.training import attach, small_vit


@pytest.mark.parametrize(
    ("invariant", "holding", "text"),
    [
        (EXACT, {100}, "exact"),
        (AT_MOST, set(range(95, 101)), "at most"),
        (AT_LEAST, set(range(100, 106)), "at least"),
        (tracks(0.01), {99, 100, 101}, "within 1%"),
    ],
)
def test_holds(invariant: BudgetInvariant, holding: set[int], text: str) -> None:
    assert {active for active in range(95, 106) if invariant.holds(active, 100)} == holding
    assert str(invariant) == text


@pytest.mark.parametrize("rule", ["itop", "sparse-learning", "set-authors"])
@pytest.mark.parametrize("density", [0.3, 0.8])
def test_rules_of_set_keep_theirs(rule: str, density: float) -> None:
    info = get_method("set")
    config = info.config(rule=rule, alpha=0.5, stop=1.0, rate="cosine-decay")  # type: ignore
    method = attach(info.create(config), small_vit(), 60, density).method
    assert str(method.budget_invariant) == ("exact" if rule == "set-authors" else "within 5%")
    run = attach(info.create(config), small_vit(), 60, density)
    for _ in run.run(1, 60):
        active, allowed = run.method.active_parameters(), run.method.allowed_parameters()
        assert run.method.budget_invariant.holds(active, allowed)


def test_at_least_one_head_and_channel() -> None:
    info = get_method("s2vite")
    run = attach(info.create(info.config()), small_vit(), 60, 0.04)
    assert run.method.topology().heads_per_layer == (1, 1, 1, 1)
    assert run.method.topology().channels_per_layer == (1, 1, 1, 1)
