"""The gate's procedure on measurements that are made up: launches, confirmation, exit codes."""

from collections.abc import Callable
from dataclasses import replace
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import UsageError
from bench.gate.check import FINE, NOT_MEASURED, REGRESSION, UNDECIDED, Plan, check
from bench.gate.measurement import Conditions, Gauged, Measurement, load
from bench.gate.outputs import action_benchmark, as_json, markdown, write
from bench.timing.launcher import Entry, LaunchError
from bench.timing.messages import Failed
from tests.support.silent import Silent

HERE = Conditions("vit-digits", 64, "cpu", 1, "2.14.1", "float32", 1)
COUNTS = {"ordinary": {"training_macs": 100}}


def baseline(**changes: Any) -> Measurement:
    steady = Gauged("barter", 0.3, (0.0, 0.001, -0.001, 0.002, -0.002), COUNTS, 50)
    made = Measurement(HERE, {"dense": steady, "barter at 0.3": steady}, (0.0, 0.001, -0.001))
    return replace(made, **changes)


class FakeGauge:
    """Launches whose numbers are given: per launch, the slow-down of barter."""

    blocks = 4

    def __init__(self, slowdowns: list[float], again: float = 0.0, noise: float = 0.001) -> None:
        self.slowdowns, self.again, self.noise = slowdowns, again, noise
        self.log_ratios: dict[str, list[float]] = {"dense": [], "barter at 0.3": [], "again": []}
        self.counts, self.conditions = COUNTS, HERE
        self.rng = np.random.default_rng(1)

    def launch(self, number: int, done: Callable[[], None]) -> None:
        noise = self.noise * self.rng.standard_normal(3)
        self.log_ratios["dense"].append(noise[0])
        slowdown = self.slowdowns[min(number, len(self.slowdowns) - 1)]
        self.log_ratios["barter at 0.3"].append(log1p(slowdown) + noise[1])
        self.log_ratios["again"].append(self.again + noise[2])

    def measurement(self, launches: slice = slice(None)) -> Measurement:
        contenders = {
            name: Gauged("barter", 0.3, tuple(self.log_ratios[name][launches]), self.counts, 50)
            for name in ("dense", "barter at 0.3")
        }
        return Measurement(self.conditions, contenders, tuple(self.log_ratios["again"][launches]))


def run(gauge: Any, before: Measurement | None = None, **plan: Any) -> Any:
    return check(gauge, before or baseline(), Plan(**plan), Silent())


def test_all_well() -> None:
    gauge = FakeGauge([0.0])
    outcome = run(gauge)
    assert (outcome.code, len(gauge.log_ratios["again"])) == (FINE, 5)


def test_slowdown_is_confirmed_by_a_fresh_measurement() -> None:
    gauge = FakeGauge([0.10])
    outcome = run(gauge)
    assert outcome.code == REGRESSION
    assert "barter at 0.3" in outcome.reason
    assert len(gauge.log_ratios["again"]) == 10
    assert [c.label for c in outcome.confirmation if c.verdict.value == "slower"] == [
        "barter at 0.3"
    ]


def test_slowdown_that_goes_away_is_no_regression() -> None:
    gauge = FakeGauge([0.10] * 5 + [0.0])
    outcome = run(gauge)
    assert outcome.code == FINE
    assert "not confirmed" in outcome.reason


class Settling(FakeGauge):
    """The frozen loop differs from itself at first."""

    def launch(self, number: int, done: Callable[[], None]) -> None:
        super().launch(number, done)
        self.log_ratios["again"][-1] = 0.05 * (-1) ** number if number < 5 else 0.0


def test_noise_is_measured_for_longer() -> None:
    gauge = Settling([0.0])
    outcome = run(gauge)
    assert (outcome.code, len(gauge.log_ratios["again"])) == (FINE, 10)
    assert outcome.changes[0].launches == 10


def test_a_confirmation_is_as_long_as_what_it_confirms() -> None:
    gauge = Settling([0.10])
    outcome = run(gauge)
    assert (outcome.code, len(gauge.log_ratios["again"])) == (REGRESSION, 20)
    assert {change.launches for change in outcome.confirmation} == {10}


def test_a_confirmation_that_is_too_noisy_is_no_pass() -> None:
    class Wild(FakeGauge):
        def launch(self, number: int, done: Callable[[], None]) -> None:
            self.noise = 0.001 if number < 5 else 0.1
            super().launch(number, done)

    outcome = run(Wild([0.10] * 5 + [0.0]))
    assert outcome.code == UNDECIDED


def test_below_the_threshold_is_fine() -> None:
    assert run(FakeGauge([0.02])).code == FINE


def test_noise_is_never_a_pass() -> None:
    outcome = run(FakeGauge([0.0], again=0.05))
    assert outcome.code == UNDECIDED
    assert "noise floor" in outcome.reason
    noisy = run(FakeGauge([0.0], noise=0.1))
    assert noisy.code == UNDECIDED


def test_speed_up_is_fine() -> None:
    assert run(FakeGauge([-0.2])).code == FINE


@pytest.mark.parametrize(("macs", "code"), [(101, REGRESSION), (99, FINE)])
def test_counts_decide_without_a_clock(macs: int, code: int) -> None:
    gauge = FakeGauge([0.0])
    gauge.counts = {"ordinary": {"training_macs": macs}}
    assert run(gauge).code == code


def test_unlike_machine_compares_counts_alone() -> None:
    gauge = FakeGauge([0.5])
    gauge.conditions = replace(HERE, device_name="another", threads=2)
    outcome = run(gauge)
    assert outcome.code == FINE
    assert not gauge.log_ratios["again"], "nothing is timed"
    assert "times not compared: device_name cpu there, another here" in outcome.not_compared
    gauge.counts = {"ordinary": {"training_macs": 101}}
    assert run(gauge).code == REGRESSION


def test_contender_that_cannot_be_measured() -> None:
    class Broken(FakeGauge):
        def launch(self, number: int, done: Callable[[], None]) -> None:
            entry: Any = Entry(FakeSpec(), "contender")  # type: ignore[arg-type]
            raise LaunchError(entry, Failed("out of memory"))

    class FakeSpec:
        title = "barter at 0.3, seed 0"

    outcome = run(Broken([0.0]))
    assert (outcome.code, outcome.reason) == (
        NOT_MEASURED,
        "barter at 0.3, seed 0: out of memory",
    )


def test_nothing_in_common_is_undecided() -> None:
    other = baseline(contenders={"set at 0.3": Gauged("barter", 0.3, (0.0, 0.1), COUNTS, 50)})
    outcome = run(FakeGauge([0.0]), other)
    assert outcome.code == UNDECIDED


def test_outputs(tmp_path: Path) -> None:
    outcome = run(FakeGauge([0.10]))
    text = markdown(outcome, 0.03)
    assert text.startswith("### bench check: regression")
    assert "| barter at 0.3 | +10." in text
    data = as_json(outcome, 0.03)
    assert (data["code"], data["changes"][1]["verdict"]) == (1, "slower")
    (first, _) = action_benchmark(outcome)
    assert set(first) == {"name", "unit", "value", "range", "extra"}
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    for _ in range(2):
        write(outcome, 0.03, tmp_path / "out", str(summary))
    assert summary.read_text().startswith("before\n### bench check")
    assert summary.read_text().count("### bench check") == 2
    assert (tmp_path / "out" / "check.json").exists()


# ------------------------------------------------------------------------ baselines


def test_baseline_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    baseline().save(path)
    assert load(path) == baseline()


DAMAGED = [
    ("", "not valid JSON"),
    ("[1, 2]", "is no baseline"),
    ('{"version": 99}', "version 99; this program reads up to 1"),
    ('{"version": "x"}', "version x"),
    ('{"version": 1, "conditions": {}}', "incomplete or damaged"),
    ('{"version": 1, "conditions": 3, "contenders": [], "again": []}', "incomplete"),
]


@pytest.mark.parametrize(("text", "message"), DAMAGED)
def test_bad_baselines(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load(path)


def test_truncated_and_missing_baselines(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    with pytest.raises(UsageError, match="cannot read baseline"):
        load(path)
    baseline().save(path)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(UsageError, match="not valid JSON"):
        load(path)


def test_baseline_without_the_frozen_loop(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    replace(baseline(), again=()).save(path)
    with pytest.raises(UsageError, match="no time of the frozen loop"):
        load(path)
