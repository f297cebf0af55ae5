"""The gate's decision: by hand, and its error rates by simulation."""

from dataclasses import replace
from math import log, log1p

import numpy as np
import pytest

from bench.gate.decision import Verdict, changes, count_changes, noise_floor
from bench.gate.measurement import Conditions, Gauged, Measurement

HERE = Conditions("vit-digits", 64, "cpu", 1, "2.14.1", "float32", 1)
COUNTS = {"ordinary": {"training_macs": 100, "host_synchronisations": 0}}


def gauged(*log_ratios: float) -> Gauged:
    return Gauged("barter", 0.3, log_ratios, COUNTS, 50)


def measured(again: tuple[float, ...] = (0.001, -0.001, 0.0), **ratios: Gauged) -> Measurement:
    return Measurement(HERE, ratios, again)


def test_slowdown_by_hand() -> None:
    before = measured(dense=gauged(0.0, 0.002, -0.002))
    now = measured(dense=gauged(*(log(1.1) + x for x in (0.0, 0.002, -0.002))))
    (change,) = changes(now, before, 0.03)
    # Welch: standard error of both means sqrt(2 / 3) * 0.002, 4 degrees of freedom, t = 2.132.
    reach = 2.1318468 * np.sqrt(2 / 3) * 0.002
    assert change.slowdown == pytest.approx(0.1)
    assert log1p(change.low) == pytest.approx(log(1.1) - reach)
    assert log1p(change.high) == pytest.approx(log(1.1) + reach)
    assert change.verdict is Verdict.SLOWER
    assert (change.launches, change.baseline_launches) == (3, 3)


def test_verdicts() -> None:
    before = measured(a=gauged(0.0, 0.002, -0.002))
    faster = measured(a=gauged(-0.5, -0.502, -0.498))
    assert changes(faster, before, 0.03)[0].verdict is Verdict.FINE
    at_threshold = measured(a=gauged(*(log1p(0.03) + x for x in (0.0, 0.002, -0.002))))
    assert changes(at_threshold, before, 0.03)[0].verdict is Verdict.FINE
    noisy = measured(a=gauged(0.0, 0.1, -0.1))
    assert changes(noisy, before, 0.03)[0].verdict is Verdict.UNDECIDED


def test_contenders_that_one_side_lacks_are_not_compared() -> None:
    before = measured(a=gauged(0.0, 0.001), b=gauged(0.0, 0.001))
    assert [c.label for c in changes(measured(b=gauged(0.0, 0.001)), before, 0.03)] == ["b"]
    assert changes(measured(b=gauged(0.0)), before, 0.03) == []


def test_noise_floor() -> None:
    assert noise_floor(measured(again=(0.0, 0.0, 0.0))) == 0.0
    assert noise_floor(measured(again=(0.02, 0.02, 0.02))) == pytest.approx(np.expm1(0.02))
    assert noise_floor(measured(again=(0.1,))) == float("inf")
    assert noise_floor(measured(again=(-0.05, 0.05))) > 0.3  # two launches know little


def test_counts() -> None:
    before = measured(a=gauged(0.0, 0.0))
    assert count_changes(before, before) == []
    more = {"ordinary": {"training_macs": 101, "host_synchronisations": 0}}
    less = {"ordinary": {"training_macs": 99, "host_synchronisations": 0}}
    gone = {"ordinary": {"training_macs": 100}}
    for counts, worse in ((more, True), (less, False), (gone, True)):
        now = measured(a=replace(gauged(0.0, 0.0), counts=counts))
        (change,) = count_changes(now, before)
        assert change.is_worse == worse
    bigger = measured(a=replace(gauged(0.0, 0.0), stored_parameters=51))
    (change,) = count_changes(bigger, before)
    assert (change.count, change.before, change.now, change.is_worse) == (
        "stored_parameters",
        50,
        51,
        True,
    )


@pytest.mark.parametrize(("effect", "at_least", "at_most"), [(0.0, 0.0, 0.03), (0.08, 0.9, 1.0)])
def test_error_rates(effect: float, at_least: float, at_most: float) -> None:
    """Three contenders, 1 % noise between launches. Even at the threshold itself a false alarm
    needs the same contender to err twice: about three times 1 in 100, as they share their
    baseline. An effect well beyond the threshold is found."""
    rng = np.random.default_rng(5)
    threshold = 0.0 if effect == 0 else 0.03

    def drawn(shift: float, launches: int = 5) -> Measurement:
        noise = 0.01 * rng.standard_normal((3, launches))
        sides = {n: gauged(*(shift + x)) for n, x in zip("abc", noise, strict=True)}
        return Measurement(HERE, sides, ())

    def slower(now: Measurement, before: Measurement) -> set[str]:
        found = changes(now, before, threshold)
        return {c.label for c in found if c.verdict is Verdict.SLOWER}

    failed = 0
    for _ in range(1000):
        before = drawn(0.0, 24)
        failed += bool(slower(drawn(log1p(effect)), before) & slower(drawn(log1p(effect)), before))
    assert at_least <= failed / 1000 <= at_most
