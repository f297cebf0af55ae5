"""SNFS bookkeeping on host numbers, and when updates come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.schedules import UpdateSchedule, fitted_interval
from baselines.sparse_learning import AdjustedGrowth, layer_rate, regrow_counts, shares_of


def test_layer_rate() -> None:
    assert layer_rate(0.5, 90, 100, 0.6, 2) == pytest.approx(0.1)
    assert layer_rate(0.5, 90, 100, 0.5, 2) == 0.5
    assert layer_rate(0.5, 80, 100, 0.9, 2) == 0.5
    assert layer_rate(0.05, 90, 100, 0.9, 2) == 0.05


def test_regrowth_by_hand() -> None:
    assert regrow_counts([0.25, 0.75], 10, 0, [50, 50]) == [3, 8]
    # The second is capped at 9.9; of the 5.1 too many half is offered again to each, and so on.
    assert regrow_counts([0.25, 0.75], 20, 0, [50, 10]) == [10, 9]
    assert regrow_counts([0.5, 0.5], 4, -10, [9, 9]) == [0, 0]
    assert shares_of([0.0, 0.0]) == [0.5, 0.5]


@given(st.data())
def test_regrowth_never_exceeds_vacancies_and_hands_out_all(data: st.DataObject) -> None:
    layers = data.draw(st.integers(1, 6))
    weights = data.draw(st.lists(st.floats(0.01, 1), min_size=layers, max_size=layers))
    vacancies = data.draw(st.lists(st.integers(0, 500), min_size=layers, max_size=layers))
    removed = data.draw(st.integers(0, 300))
    counts = regrow_counts(shares_of(weights), removed, 0.0, vacancies)
    assert all(0 <= count <= vacancy for count, vacancy in zip(counts, vacancies, strict=True))
    if removed <= 0.5 * sum(vacancies):
        # One entry a layer is lost by rounding, at most one gained.
        assert removed - layers - 1 <= sum(counts) <= removed + layers + 1


def test_adjusted_growth_by_hand() -> None:
    adjusted = AdjustedGrowth()
    adjusted.note(2.0)
    assert adjusted.value == 3.5
    adjusted.note(-2.0)
    assert adjusted.value == 0.25 * 3.5 - 1.5
    assert adjusted.deviations == [2.0, -2.0]


def test_schedule_by_hand() -> None:
    schedule = UpdateSchedule(interval=10, end=30, alpha=0.3, total_steps=40)
    assert list(schedule.update_steps()) == [10, 20]
    assert schedule.fraction(15) == pytest.approx(0.15)
    assert [t for t in range(1, 41) if schedule.needs_dense_gradient(t)] == [10, 20, 30]
    constant = UpdateSchedule(10, 40, 0.3, 40, rate="constant")
    assert {constant.fraction(step) for step in constant.update_steps()} == {0.3}
    decay = UpdateSchedule(10, 40, 0.5, 40, rate="cosine-decay")
    assert decay.fraction(40) == pytest.approx(0.005)


@given(interval=st.integers(1, 500), end=st.integers(1, 5000), least=st.integers(0, 20))
def test_short_schedules_have_enough_updates(interval: int, end: int, least: int) -> None:
    fitted = fitted_interval(interval, end, least)
    updates = len(UpdateSchedule(fitted, end, 0.3, end).update_steps())
    assert 1 <= fitted <= interval
    assert updates >= min(least, end - 1)
    if (end - 1) // interval >= least:
        assert fitted == interval
