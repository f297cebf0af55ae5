"""`bench run --mode time` and its report, with real processes on a tiny schedule."""

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.errors import UsageError
from bench.gate.from_study import from_study
from bench.reason_codes import TOO_FEW_LAUNCHES
from bench.run_command import Manner, run_command
from bench.schema import AGAIN, CONTENDER
from bench.store import StudyStore
from bench.timing import command
from bench.timing.launcher import Block, BlockLength, Launcher
from reports.page import render

ROUNDS = 3
EFFORT = {"launches": 2, "target": "2%", "time_limit_min": 5.0}


def run(
    results: Path, effort: dict[str, Any] = EFFORT, file: Path | None = None, **given: Any
) -> tuple[int, str]:
    """`bench run --mode time` with these options; exit code and what it printed."""
    text = io.StringIO()
    options = {
        "mode": "time",
        "device": "cpu",
        "steps": 40,
        "batch_size": 4,
        "density": "0.5",
        "seeds": "0",
        "name": "timed",
        **given,
    }
    with pytest.MonkeyPatch.context() as patch:
        # How noisy the machine is must not decide how many launches a test has.
        patch.setattr(command, "widest_half_width", lambda store, run_ids: 0.0)
        short = partial(Launcher, rounds=ROUNDS, length=BlockLength(seconds=0.02))
        patch.setattr(command, "Launcher", short)
        manner = Manner(results, Console(file=text, width=200), effort=effort or {})
        code = run_command(file, options, manner)
    return code, text.getvalue()


def rows(store: StudyStore, table: str) -> list[dict[str, Any]]:
    return store.arrow(table).to_pylist()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    results = tmp_path_factory.mktemp("results")
    code, output = run(results, methods="dense,barter,rigl")
    assert code == 0, output
    return StudyStore(results, "timed")


def test_runs_say_how_they_were_timed(store: StudyStore) -> None:
    runs = {row["method"]: row for row in rows(store, "runs")}
    assert runs.keys() == {"dense", "barter", "rigl"}
    for row in runs.values():
        assert (row["status"], row["mode"], row["launches"]) == ("ok", "time", 2)
        assert row["side_by_side"]
        assert TOO_FEW_LAUNCHES in row["reason_codes"]
        assert row["foreign_cpu_cores"] is None or row["foreign_cpu_cores"] >= 0
        assert row["stopped"] in ("target reached", "time limit")
        assert row["peak_allocated_bytes"] > 0
        assert row["device_name"]
        assert row["bare_version"] == 1
    assert not rows(store, "steps")


def test_every_contender_stands_in_every_round(store: StudyStore) -> None:
    ids = {row["run_id"]: row["method"] for row in rows(store, "runs")}
    segments: dict[str, set[str]] = {}
    for row in rows(store, "segments"):
        segments.setdefault(ids[row["run_id"]], set()).add(row["segment"])
    assert segments["dense"] == {"ordinary"}
    assert segments["rigl"] >= {"ordinary", "update"}
    assert "ordinary at final widths" in segments["barter"]
    seen: dict[tuple[Any, ...], set[str]] = {}
    for row in rows(store, "blocks"):
        assert row["step_ms"]
        assert all(ms > 0 for ms in row["step_ms"])
        place = (ids[row["run_id"]], row["role"], row["launch"], row["round"])
        seen.setdefault(place, set()).add(row["segment"])
    expected = {
        (method, role, launch, round_): segments[method]
        for launch in range(2)
        for round_ in range(ROUNDS)
        for method, role in (
            ("dense", CONTENDER),
            ("dense", AGAIN),
            ("barter", CONTENDER),
            ("rigl", CONTENDER),
        )
    }
    assert seen == expected
    positions = {
        (row["launch"], row["round"], row["position"], row["run_id"], row["role"])
        for row in rows(store, "blocks")
    }
    for launch in range(2):
        for round_ in range(ROUNDS):
            taken = sorted(p[2] for p in positions if p[:2] == (launch, round_))
            assert taken == [0, 1, 2, 3]


def test_telemetry_of_every_launch_is_recorded(store: StudyStore) -> None:
    found = rows(store, "telemetry")
    assert {(row["run_id"], row["launch"]) for row in found} == {
        (row["run_id"], launch) for row in rows(store, "runs") for launch in range(2)
    }
    assert {row["moment"] for row in found} == {"timed"}
    assert {row["status"] for row in found} == {"absent"}, "a CPU has no such readings"
    assert {row["energy_j_per_step"] for row in rows(store, "runs")} == {None}
    assert all(row["unscored_steps"] > 0 for row in rows(store, "blocks"))


def test_report_of_a_timed_study(store: StudyStore) -> None:
    text = io.StringIO()
    written = render(store, Console(file=text, width=120))
    page = (store.report_folder / "report.md").read_text()
    assert "too few launches" in page, "two launches allow no verdict"
    assert "Update cost" in page
    assert "utside the clock" in page
    assert any(path.suffix == ".png" for path in written)


def test_a_second_call_has_nothing_to_do_and_a_third_adds(store: StudyStore) -> None:
    blocks = len(rows(store, "blocks"))
    code, output = run(store.root, methods="dense,barter,rigl")
    assert (code, "nothing to do" in output) == (0, True)
    assert len(rows(store, "blocks")) == blocks
    code, output = run(store.root, {**EFFORT, "launches": 3}, methods="dense,barter,rigl")
    assert code == 0, output
    assert {row["launch"] for row in rows(store, "blocks")} == {0, 1, 2}
    assert {row["launches"] for row in rows(store, "runs")} == {3}
    assert {row["launch"] for row in rows(store, "telemetry")} == {0, 1, 2}


def test_impossible_contender_is_skipped_and_the_others_are_timed(tmp_path: Path) -> None:
    code, output = run(tmp_path, methods="dense,srigl", density="0.012")
    assert code == 0, output
    runs = {row["method"]: row for row in rows(StudyStore(tmp_path, "timed"), "runs")}
    assert (runs["dense"]["status"], runs["srigl"]["status"]) == ("ok", "skipped")
    assert "constant fan-in" in runs["srigl"]["reason"]


def test_interrupted_study_keeps_whole_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Launcher.side_by_side

    def interrupted(self: Launcher, entries: Any, number: int) -> Iterator[Block]:
        for index, block in enumerate(original(self, entries, number)):
            if number == 1 and index == 2:
                raise KeyboardInterrupt
            yield block

    with monkeypatch.context() as patch:
        patch.setattr(Launcher, "side_by_side", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, methods="dense,static")
    store = StudyStore(tmp_path, "timed")
    assert {row["launch"] for row in rows(store, "blocks")} == {0}
    assert {row["stopped"] for row in rows(store, "runs")} == {None}
    code, output = run(tmp_path, methods="dense,static")
    assert code == 0, output
    assert {row["launch"] for row in rows(store, "blocks")} == {0, 1}


@pytest.mark.parametrize(
    ("effort", "message"),
    [
        ({"launches": 1}, "--launches 1"),
        ({"target": "0%"}, "--target is 0%"),
        ({"target": "wide"}, "--target takes a percentage"),
        ({"time_limit_min": 0.0}, "--time-limit 0.0"),
    ],
)
def test_effort_that_makes_no_sense(effort: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        run(tmp_path, effort, methods="dense")


def test_unknown_mode(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--mode is 'tiem'"):
        run(tmp_path, mode="tiem", methods="dense")


def test_each_execution_of_a_launch_has_its_own_reference(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[[grid]]\nmethods = ['dense']\n[[grid]]\nmethods = ['dense', 'static']\n")
    with file.open("a") as text:
        text.write("optimizer = 'loop'\nautocast = 'bf16'\n")
    code, output = run(tmp_path, file=file, name="two")
    assert code == 0, output
    store = StudyStore(tmp_path, "two")
    runs = {row["run_id"]: row for row in rows(store, "runs")}
    entered = {
        (runs[row["run_id"]]["method"], runs[row["run_id"]]["optimizer"], row["role"])
        for row in rows(store, "blocks")
    }
    assert entered == {
        *(("dense", "fused", role) for role in (CONTENDER, AGAIN)),
        *(("dense", "loop", role) for role in (CONTENDER, AGAIN)),
        ("static", "loop", CONTENDER),
    }
    text = io.StringIO()
    render(store, Console(file=text, width=160), force=True)
    assert "Forced: ratios across settings" in text.getvalue()


def test_a_study_with_the_frozen_loop_is_a_baseline(tmp_path: Path) -> None:
    whole = {"steps": None, "batch_size": 128, "methods": "dense", "seeds": "0"}
    run(tmp_path, **whole)
    store = StudyStore(tmp_path, "timed")
    with pytest.raises(UsageError, match=r"without the frozen loop: add it with `bench run"):
        from_study(store)
    # What has been timed without the loop is not enough where it is wanted.
    code, output = run(tmp_path, EFFORT | {"bare": True}, **whole)
    assert code == 0, output
    assert len(render(store, Console(file=io.StringIO()))) > 3
    baseline = from_study(store)
    assert baseline.contenders.keys() == {"dense"}
    assert len(baseline.again) == 2, "launches without the loop do not count"
    for entry in baseline.contenders.values():
        assert len(entry.log_ratios) == 2
        assert entry.counts["ordinary"]["training_macs"] > 0
    assert (baseline.conditions.workload, baseline.conditions.batch_size) == ("vit-digits", 128)


def test_studies_that_are_no_baselines(store: StudyStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"timed with --steps, which a gate does not"):
        from_study(store)
    with pytest.raises(UsageError, match=r"no study"):
        from_study(StudyStore(tmp_path, "nothing"))


def test_launches_of_two_calls_are_never_paired(tmp_path: Path) -> None:
    run(tmp_path, methods="dense,static")
    run(tmp_path, methods="rigl")
    launches: dict[str, set[int]] = {}
    store = StudyStore(tmp_path, "timed")
    methods = {row["run_id"]: row["method"] for row in rows(store, "runs")}
    for row in rows(store, "blocks"):
        launches.setdefault(methods[row["run_id"]], set()).add(row["launch"])
    assert launches == {"dense": {0, 1}, "static": {0, 1}, "rigl": {2, 3}}
