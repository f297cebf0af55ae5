"""`bench check` from the command line to its exit code; launches are made up, the rest is real."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.gate import command
from bench.gate.check import new_gauge
from bench.gate.gauge import Gauge
from bench.run_spec import RunSpec
from bench.schema import AGAIN
from tests.support.command import call

NOISE = (0.002, -0.001, 0.001, -0.002, 0.0)


class Launches:
    """What every launch from now on shows: the slow-down of each method, and the noise."""

    def __init__(self) -> None:
        self.slowdowns: Mapping[str, float] = {}
        self.noise = 1.0
        self.done = 0

    def of(self, gauge: Gauge) -> Callable[[int, Callable[[], None]], None]:
        def launch(number: int, done: Callable[[], None]) -> None:
            noise = self.noise * NOISE[self.done % len(NOISE)]
            self.done += 1
            gauge.log_ratios[AGAIN].append(noise)
            for spec in gauge.specs:
                value = self.slowdowns.get(spec.method, 0.0) + noise
                gauge.log_ratios[spec.run_id].append(value)

        return launch


@pytest.fixture(scope="module")
def gauges() -> dict[tuple[RunSpec, ...], Gauge]:
    """Contenders are really counted, once for all tests."""
    return {}


@pytest.fixture
def launches(
    monkeypatch: pytest.MonkeyPatch, gauges: dict[tuple[RunSpec, ...], Gauge], tmp_path: Path
) -> Launches:
    shown = Launches()

    def made(specs: Sequence[RunSpec], logs: Path, index: int | None = None) -> Gauge:
        known = gauges.get(tuple(specs))
        if known is None:
            known = gauges[tuple(specs)] = new_gauge(specs, tmp_path / "logs", index)
        fresh = Gauge(specs, known.launcher, known.known)
        object.__setattr__(fresh, "launch", shown.of(fresh))
        return fresh

    monkeypatch.setattr(command, "new_gauge", made)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return shown


@pytest.fixture
def results(tmp_path: Path, launches: Launches, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder with a baseline of a small batch."""
    folder = tmp_path / "results"
    asked = ("check", "--update", "--batch-size", "4", "--device", "cpu", "--results", str(folder))
    assert call(monkeypatch, *asked) == 0
    return folder


def check(monkeypatch: pytest.MonkeyPatch, results: Path, *more: str) -> int:
    return call(monkeypatch, "check", "--results", str(results), *more)


def outcome(results: Path) -> dict[str, Any]:
    return json.loads((results / "check" / "check.json").read_text())


def test_the_same_code_passes(
    monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(monkeypatch, results) == 0
    assert outcome(results)["result"] == "fine"
    assert "Measured on" in capsys.readouterr().out


def test_a_slow_down_is_exit_1_and_is_named(
    monkeypatch: pytest.MonkeyPatch, results: Path, launches: Launches, tmp_path: Path
) -> None:
    launches.slowdowns = {"rigl": 0.08}
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert check(monkeypatch, results) == 1
    found = outcome(results)
    assert found["reason"] == "slower by more than 3.0%, twice: rigl at 0.3"
    assert [c["label"] for c in found["confirmation"] if c["verdict"] == "slower"] == [
        "rigl at 0.3"
    ]
    assert "### bench check: regression" in summary.read_text()
    assert check(monkeypatch, results, "--max-slowdown", "20%") == 0


def test_slower_shared_code_is_seen_in_dense(
    monkeypatch: pytest.MonkeyPatch, results: Path, launches: Launches
) -> None:
    launches.slowdowns = dict.fromkeys(("dense", "barter", "rigl"), 0.08)
    assert check(monkeypatch, results) == 1
    assert "dense" in outcome(results)["reason"]


def test_noise_is_exit_3(
    monkeypatch: pytest.MonkeyPatch, results: Path, launches: Launches
) -> None:
    launches.noise = 40.0
    assert check(monkeypatch, results) == 3
    assert "noise floor" in outcome(results)["reason"]


def edited(results: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = results / "baseline" / "baseline.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_worse_count_is_exit_1_on_any_machine(
    monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    def cheaper(content: dict[str, Any]) -> None:
        content["conditions"]["device_name"] = "another one"
        counts = content["contenders"]["barter at 0.3"]["counts"]
        next(iter(counts.values()))["dispatched_operators"] -= 1

    edited(results, cheaper)
    assert check(monkeypatch, results) == 1
    assert "barter at 0.3: dispatched_operators" in outcome(results)["reason"]
    assert "another one there" in outcome(results)["not_compared"][0]


def test_what_was_found_survives_a_summary_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    launches: Launches,
    capsys: pytest.CaptureFixture[str],
) -> None:
    launches.slowdowns = {"rigl": 0.08}
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(results))  # a folder
    assert check(monkeypatch, results) == 1
    assert "not written: cannot append to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--baseline", "none"), "none"),
        (("--workload", "cct-digits"), "the baseline has --workload vit-digits"),
        (("--methods", "dense"), "--methods belongs to --update"),
        (("--max-slowdown", "3 percent"), "takes a percentage"),
    ],
)
def test_wrong_requests(
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    capsys.readouterr()
    assert check(monkeypatch, results, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(version=99),
        lambda content: content.pop("contenders"),
        lambda content: content.pop("again"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, results: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    edited(results, change)
    assert check(monkeypatch, results) == 2
    path = results / "baseline" / "baseline.json"
    path.write_text(path.read_text()[:100])
    assert check(monkeypatch, results) == 2
