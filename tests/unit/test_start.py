"""How far a compact run goes on, and what a start does to a run's identity."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.start import CONTINUE, FINETUNE, Start, matching_steps
from bench.workloads.registry import get_workload
from methods.budget import unit_budget
from tests.support.checkpointed import spec_of


@pytest.mark.parametrize(("density", "epochs"), [(0.1, 906.17), (0.3, 324.28)])
def test_published_epochs_at_matched_compute(density: float, epochs: float) -> None:
    workload = get_workload("vit-cifar100-finetune")
    shape, steps = workload.shape, workload.total_steps()
    budget = unit_budget(shape.blocks, density)
    dense = shape.macs_training(shape.blocks.total_heads, shape.blocks.total_channels)
    compact = shape.macs_training(budget.heads, budget.channels)
    total = steps + matching_steps(steps, dense, compact)
    assert total / workload.steps_per_epoch() == pytest.approx(epochs, abs=0.005)


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**12).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d))),
)
def test_the_last_step_is_the_first_that_reaches_the_budget(
    steps: int, macs: tuple[int, int]
) -> None:
    dense, compact = macs
    more = matching_steps(steps, dense, compact)
    spent = Fraction(steps * compact + more * compact)
    assert spent >= steps * dense
    assert more == 0 or spent - compact < steps * dense


def test_identity_is_of_what_is_started_from_and_not_of_where_it_lies() -> None:
    plain = spec_of("barter")
    here, there = (replace(plain, start=Start(FINETUNE, "abc", folder=f)) for f in ("a", "b"))
    other = replace(plain, start=Start(FINETUNE, "abd", folder="a"))
    assert here.run_id == there.run_id
    assert len({plain.run_id, here.run_id, other.run_id}) == 3
    assert here.to_json() == there.to_json()


def test_only_a_continued_run_has_steps_behind_it() -> None:
    plain = spec_of("barter")
    assert plain.steps_before == 0
    assert replace(plain, start=Start(FINETUNE, "abc")).steps_before == 0
    assert replace(plain, start=Start(CONTINUE, "abc", 16)).steps_before == 16
