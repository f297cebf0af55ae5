"""Which runs of two studies belong together, which conditions differ, and what is counted."""

from typing import Any

import pytest

from reports.compare_counts import accuracy_changes, count_changes
from reports.compare_match import AFTER, BEFORE, Matching, differences, match
from reports.load import Run, Standing
from tests.unit.compare_fixture import records_of, run_of
from tests.unit.reports_fixture import run_row

T_2 = 4.3026527


def run(
    method: str = "static",
    density: float = 0.3,
    seed: int = 0,
    config: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    **changes: Any,
) -> Run:
    return run_of(run_row(method, density, seed) | changes, config=config, environment=environment)


def matched(before: list[Run], after: list[Run]) -> Matching:
    return match(records_of(before), records_of(after))


def rig_l(interval: str, **changes: Any) -> Run:
    config = {"config.interval": interval, "changed_options": '["interval"]'}
    return run("rigl", config=config, run_id=f"rigl-{interval}", **changes)


def test_runs_are_joined_by_configuration_and_seed() -> None:
    before = [run(seed=0), run(seed=1), run("barter"), run(density=0.1)]
    after = [run(seed=1), run(seed=2), run("barter"), run("set")]
    matching = matched(before, after)
    assert [(m.configuration.text, m.seeds) for m in matching.matches] == [
        ("static 0.3", [1]),
        ("barter 0.3", [0]),
    ]
    assert [(u.side, u.configuration.text, u.seeds, u.why) for u in matching.unmatched] == [
        (BEFORE, "static 0.1", (0,), "not in the study after"),
        (BEFORE, "static 0.3", (0,), "this seed is not in the study after"),
        (AFTER, "static 0.3", (2,), "this seed is not in the study before"),
        (AFTER, "set 0.3", (0,), "not in the study before"),
    ]


def test_options_of_a_method_are_part_of_its_configuration() -> None:
    matching = matched([rig_l("5"), run("rigl", run_id="plain")], [rig_l("4"), rig_l("5")])
    assert [m.configuration.name for m in matching.matches] == ["rigl [interval=5]"]
    assert [u.configuration.name for u in matching.unmatched] == ["rigl", "rigl [interval=4]"]


def test_machine_torch_and_commit_do_not_part_configurations() -> None:
    other = run(device_name="L40", torch_version="3.0", git_commit="fedc", threads=8)
    (m,) = matched([run()], [other]).matches
    assert [d.condition for d in m.differences] == ["device_name", "threads", "torch_version"]
    assert not differences(run(), run(git_commit="fedc", run_id="other", study="other"))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"batch_size": 64}, {"batch_size": 128}, "batch_size (64 before, 128 after)"),
        ({"tf32": False}, {"tf32": True}, "tf32 (False before, True after)"),
        ({"total_steps": 200}, {"total_steps": 9}, "total_steps (200 before, 9 after)"),
        ({"driver": "550"}, {"driver": None}, "driver (550 before, none after)"),
        ({"config": {"recipe.lr": "1"}}, {"config": {"recipe.lr": "2"}}, "recipe.lr (1"),
        (
            {"environment": {"cudnn": "9", "settings": "{}"}},
            {"environment": {"cudnn": "9", "settings.OMP_PROC_BIND": "true"}},
            "OMP_PROC_BIND (not set before, true after)",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_condition_that_differs_is_named(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    (found,) = differences(run(**before), run(**after))
    assert str(found).startswith(said)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"config": {"recipe.lr": "1"}}, {"config": {"recipe.lr": "1", "recipe.new": "0"}}),
        ({"config": {"recipe.chosen": "[]"}}, {"config": {"recipe.chosen": "[1]"}}),
        ({"config": {"gpu": "null", "seed": "0"}}, {"config": {"gpu": "L40", "seed": "1"}}),
        ({"environment": {"python": "3.11"}}, {"environment": {"python": "3.12"}}),
        ({"environment": {}}, {"environment": {"settings.MKL_CBWR": "1"}}),
    ],
    ids=str,
)
def test_what_is_no_condition(before: dict[str, Any], after: dict[str, Any]) -> None:
    """New options with defaults, remarks, what other columns say, what was not recorded."""
    assert differences(run(**before), run(**after)) == ()


def test_equal_conditions_are_joined_first() -> None:
    before = [run(run_id="a2", threads=2), run(run_id="a4", threads=4)]
    after = [run(run_id="b4", threads=4), run(run_id="b1", threads=1)]
    pairs = [(m.before[0]["run_id"], m.after[0]["run_id"]) for m in matched(before, after).matches]
    assert pairs == [("a4", "b4"), ("a2", "b1")]


def test_where_several_could_be_meant_none_is() -> None:
    before = [run(run_id="a2", threads=2), run(run_id="a4", threads=4)]
    matching = matched(before, [run(run_id="b1", threads=1)])
    assert matching.matches == []
    assert {u.why.partition(",")[0] for u in matching.unmatched} == {"several times there"}


@pytest.mark.parametrize("standing", [Standing.FAILED, Standing.SKIPPED, Standing.INVALID])
def test_runs_that_are_not_used_are_named_on_both_sides(standing: Standing) -> None:
    bad = run_of(run_row("static", 0.3, 0), standing, f"{standing}: why")
    matching = matched([run(), run("barter")], [bad, run("barter")])
    assert [(u.side, u.why) for u in matching.unmatched] == [
        (BEFORE, f"{standing} after: why"),
        (AFTER, f"{standing} after: why"),
    ]


# ------------------------------------------------------------------ counts, accuracy


def test_counts_are_exact_differences_by_seed() -> None:
    before = [run(seed=s, peak_allocated_bytes=100 + s, stored_parameters=7) for s in (0, 1)]
    after = [run(seed=s, peak_allocated_bytes=130 + 5 * s, stored_parameters=7) for s in (0, 1)]
    changes = {c.count: c for c in count_changes(matched(before, after).matches)}
    peak = changes["peak_allocated_bytes"]
    assert (peak.before.low, peak.before.high, peak.after.mean) == (100, 101, 132.5)
    assert (peak.difference.low, peak.difference.high, peak.seeds) == (30, 34, 2)
    assert changes["stored_parameters"].is_equal
    assert not peak.is_equal


def test_differences_that_cancel_are_not_equal() -> None:
    before = [run(seed=s, stored_parameters=7) for s in (0, 1)]
    after = [run(seed=s, stored_parameters=8 - 2 * s) for s in (0, 1)]
    (change,) = [
        c for c in count_changes(matched(before, after).matches) if c.count == "stored_parameters"
    ]
    assert change.difference.mean == 0
    assert not change.is_equal


def test_an_unknown_count_is_in_no_difference() -> None:
    before, after = [run(macs_forward_per_image=None)], [run()]
    counts = {c.count for c in count_changes(matched(before, after).matches)}
    assert "macs_forward_per_image" not in counts
    assert "macs_backward_per_image" in counts


def test_accuracy_is_paired_by_seed_under_any_conditions() -> None:
    before = [run(seed=s, test_top1_percent=90.0 + 3 * s) for s in range(3)]
    gains = (0.1, 0.2, 0.3)
    after = [
        run(seed=s, test_top1_percent=90.0 + 3 * s + gains[s], torch_version="3.0")
        for s in range(3)
    ]
    (change,) = accuracy_changes(matched(before, after).matches)
    assert change.difference.value == pytest.approx(0.2)
    assert change.difference.high == pytest.approx(0.2 + T_2 * 0.1 / 3**0.5)
    assert change.before.value == pytest.approx(93)


def test_one_seed_has_no_interval_and_generated_data_no_accuracy() -> None:
    (change,) = accuracy_changes(matched([run()], [run(test_top1_percent=90.0)]).matches)
    assert change.difference.low is None
    assert accuracy_changes(matched([run()], [run(synthetic_data=True)]).matches) == []
