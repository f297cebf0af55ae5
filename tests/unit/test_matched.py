"""Costs at evaluations, and accuracy at a cost: by hand, and what holds for any run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.store import StudyStore
from reports.load import load
from reports.matched import Course, Entrant, Matched, match_study
from reports.matched_costs import COSTS, find_cost
from tests.unit.compare_fixture import run_of
from tests.unit.matched_fixture import entrant, learned, small_study, written
from tests.unit.reports_fixture import run_row
from tests.unit.time_fixture import demo_runs, write_timed

RUN = run_of(run_row("static", 0.3, 0))


def matched(store: StudyStore, cost: str) -> Matched:
    return match_study(load(store), COSTS[cost])


def costs_of(store: StudyStore, cost: str, method: str, seed: int = 0) -> list[float]:
    (peers,) = matched(store, cost).settings
    (found,) = [
        course
        for e in peers.entrants
        for course in e.courses
        if (e.contender.method, course.run["seed"]) == (method, seed)
    ]
    return found.cost.tolist()


# ------------------------------------------------------------------------- one run


def course(cost: list[float], top1: list[float]) -> Course:
    done = np.arange(1, len(cost) + 1) / len(cost)
    return Course(RUN, np.array(cost), done, np.maximum.accumulate(np.array(top1)))


def test_accuracy_at_a_cost_is_that_of_the_best_checkpoint_so_far() -> None:
    mine = course([10.0, 20.0, 30.0, 40.0], [50.0, 70.0, 65.0, 90.0])
    found = [mine.best_at(cost) for cost in (9.9, 10.0, 19.9, 20.0, 30.0, 39.9, 40.0, 99.0)]
    assert found == [None, 50.0, 50.0, 70.0, 70.0, 70.0, 90.0, 90.0]
    assert [mine.done_at(cost) for cost in (5.0, 15.0, 40.0)] == [None, 0.25, 1.0]
    assert [mine.cost_of(top1) for top1 in (50.0, 50.1, 70.0, 80.0, 90.1)] == [
        *(10.0, 20.0, 20.0, 40.0),
        None,
    ]


def test_last_digits_decide_nothing() -> None:
    mine = course([0.1 + 0.2], [94.1])
    assert mine.best_at(0.3) == 94.1
    assert mine.cost_of(float(np.nextafter(94.1, 100))) == 0.1 + 0.2


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=8),
    st.data(),
    st.floats(0.0, 100.0),
)
def test_what_holds_for_any_run(gaps: list[float], data: st.DataObject, cost: float) -> None:
    percent = st.floats(0.0, 100.0)
    top1 = data.draw(st.lists(percent, min_size=len(gaps), max_size=len(gaps)))
    mine = course(np.cumsum(gaps).tolist(), top1)
    best = mine.best_at(cost)
    assert (best is None) == (cost * (1 + 1e-9) < gaps[0])
    if best is not None:
        assert best in top1, "never interpolated"
        assert (mine.best_at(cost + 1) or 0) >= best, "more cost never loses"
        reached = mine.cost_of(best)
        assert reached is not None
        assert reached <= cost * (1 + 1e-9)
    target = data.draw(percent)
    reached = mine.cost_of(target)
    assert (reached is None) == (max(top1) < target - 1e-9)
    if reached is not None:
        assert (mine.best_at(reached) or 0) >= target - 1e-9


# --------------------------------------------------------------------------- costs


@pytest.mark.parametrize(
    ("cost", "costs"),
    [
        ("flops", [1e7, 2e7, 3e7, 4e7]),  # 2 x 0.5e6 MACs a step
        ("steps", [10.0, 20.0, 30.0, 40.0]),
        # Two steps of 10 ms and eight of 1 ms; then ten of 1 ms each time.
        ("time", [0.028, 0.038, 0.048, 0.058]),
        ("memory", [0.028, 0.038, 0.048, 0.058]),  # at 1 GiB
    ],
)
def test_costs_by_hand(tmp_path: Path, cost: str, costs: list[float]) -> None:
    store = written(tmp_path, small_study())
    assert costs_of(store, cost, "static") == pytest.approx(costs)


def test_memory_is_the_runs_peak_and_energy_its_mean(tmp_path: Path) -> None:
    halved = learned(
        "static", 0.5, 0, [40.0, 50.0], 1.0, peak_allocated_bytes=2**29, energy_j_per_step=3.0
    )
    store = written(tmp_path, [halved])
    assert costs_of(store, "memory", "static") == pytest.approx([0.014, 0.019])
    assert costs_of(store, "energy", "static") == pytest.approx([30.0, 60.0])


def test_a_run_that_continues_another_has_cost_that_too(tmp_path: Path) -> None:
    first = learned("static", 0.5, 0, [40.0, 50.0], 1.0, energy_j_per_step=3.0)
    more: dict[str, Any] = {
        "run_id": "more",
        "start": "continue",
        "start_run_id": first["runs"][0]["run_id"],
        "steps_before": 20,
        "training_macs_before": 1e7,
        "energy_j_per_step": 2.0,
    }
    again = learned("static", 0.5, 0, [55.0, 60.0, 70.0], 1.0, **more)
    store = written(tmp_path, [first, again])
    expected = {
        "steps": [30.0, 40.0, 50.0],
        "flops": [3e7, 4e7, 5e7],
        "time": [0.038 + 0.028, 0.038 + 0.038, 0.038 + 0.048],
        "memory": [0.038 + 0.028, 0.038 + 0.038, 0.038 + 0.048],
        "energy": [60.0 + 20, 60.0 + 40, 60.0 + 60],
    }
    for cost, costs in expected.items():
        (peers,) = matched(store, cost).settings
        assert [e.name for e in peers.entrants] == ["static, 20 steps", "static, 30 steps"]
        assert peers.entrants[1].courses[0].cost.tolist() == pytest.approx(costs), cost
    alone = written(tmp_path, [again], "alone")
    assert costs_of(alone, "flops", "static") == expected["flops"]
    with pytest.raises(UsageError, match="1 run continuing a run whose cost is not in this study"):
        matched(alone, "time")


def test_runs_without_the_cost_are_named_and_the_others_matched(tmp_path: Path) -> None:
    runs = small_study()
    runs[2]["steps"][25]["step_ms"] = None
    del runs[3]["steps"][-1]
    runs[4]["evals"] = []
    runs[5]["evals"][0]["cumulative_training_macs"] = None
    store = written(tmp_path, runs)
    timed = matched(store, "time")
    assert [(run["run_id"], reason) for run, reason in timed.without] == [
        ("barter-0_5-0", "never evaluated on the validation split"),
        ("static-0_5-0", "with steps without a time"),
        ("static-0_5-1", "with an evaluation after its last recorded step"),
    ]
    (peers,) = timed.settings
    assert [(e.contender.method, e.contender.seeds) for e in peers.entrants] == [
        ("dense", [0, 1]),
        ("barter", [1]),
    ]
    without = {run["run_id"]: reason for run, reason in matched(store, "flops").without}
    assert without["barter-0_5-1"] == "with an evaluation whose MACs were not counted"
    assert len(without) == 2


# ------------------------------------------------------------------ who stands together


def test_matched_at_the_largest_cost_that_all_reached(tmp_path: Path) -> None:
    (peers,) = matched(written(tmp_path, small_study()), "flops").settings
    assert peers.matched_cost == 4e7
    assert [e.label_with_density for e in peers.limiting] == ["static 0.5", "barter 0.5"]
    top1 = {e.name: e.top1_at(peers.matched_cost) for e in peers.entrants}
    assert top1 == {
        "dense": {0: 70.0, 1: 71.0},
        "static": {0: 82.0, 1: 83.0},
        "barter": {0: 85.0, 1: 87.0},
    }
    assert peers.common_top1 == 82.5


def test_schedules_of_any_length_stand_together_and_machines_do_not(tmp_path: Path) -> None:
    runs = [
        *small_study(),
        learned("barter", 0.5, 2, [40.0, 80.0], run_id="short"),
        learned("barter", 0.5, 2, [40.0, 80.0], run_id="there", device_name="Other CPU"),
    ]
    first, second = matched(written(tmp_path, runs), "steps").settings
    assert [(e.name, e.total_steps) for e in first.entrants] == [
        ("dense", 40),
        ("static", 40),
        ("barter, 20 steps", 20),
        ("barter, 40 steps", 40),
    ]
    assert first.matched_cost == 20
    assert second.setting["device_name"] == "Other CPU"
    assert [e.name for e in second.entrants] == ["barter"]


def test_repeated_seeds_are_one(tmp_path: Path) -> None:
    runs = [learned("static", 0.5, 0, [40.0, top1], run_id=f"run-{top1}") for top1 in (60, 70)]
    (peers,) = matched(written(tmp_path, runs), "steps").settings
    (only,) = peers.entrants
    assert (only.seeds, only.top1_at(20.0)) == (1, {0: 65.0})


def test_a_seed_counts_only_if_all_its_runs_have_a_value() -> None:
    late = entrant("static", {0: [50.0], 1: [60.0]}, from_cost=5.0)
    early = entrant("static", {1: [40.0]})
    both = Entrant(late.contender, (*late.courses, *early.courses))
    assert both.top1_at(1.0) == {}
    assert both.top1_at(5.0) == {0: 50.0, 1: 50.0}


# ------------------------------------------------------------------------- refused


def refused(store: StudyStore, cost: str = "flops") -> str:
    with pytest.raises(UsageError) as caught:
        matched(store, cost)
    return str(caught.value)


def test_studies_that_hold_nothing_to_be_matched(tmp_path: Path) -> None:
    timed = write_timed(tmp_path, demo_runs()[:2], "timed")
    assert "is of mode time, which trains nothing to its end" in refused(timed)
    learned_nothing = learned("dense", 1.0, 0, [10.0], synthetic_data=True)
    unevaluated = learned("dense", 1.0, 1, [10.0])
    unevaluated["evals"] = []
    message = refused(written(tmp_path, [learned_nothing, unevaluated], "nothing"))
    assert message == (
        "no run of study 'nothing' can be matched by flops: 1 run on synthetic data, from which "
        "nothing can be learned; 1 run never evaluated on the validation split"
    )
    failed = {"runs": [run_row("dense", 1.0, 0, status="failed", reason="x")]}
    assert "all of them failed or were skipped" in refused(written(tmp_path, [failed], "failed"))
    uncounted = refused(written(tmp_path, small_study(), "uncounted"), "energy")
    assert uncounted.endswith("can be matched by energy: 6 runs without counted energy")


def test_unknown_costs() -> None:
    assert find_cost("memory").base == "gib_s"
    for given_, hint in (("flop", "did you mean 'flops'?"), ("TIME", "did you mean 'time'?")):
        with pytest.raises(UsageError, match="one of flops, time, steps, memory, energy") as caught:
            find_cost(given_)
        assert hint in str(caught.value)
