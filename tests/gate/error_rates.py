"""How often the gate cries wolf, and what it finds: measured, for `docs/gate.md`.

    python -m tests.gate.error_rates record FILE [MINUTES]   # launches, appended to FILE
    python -m tests.gate.error_rates report FILE [NOISY]     # rates from them, to docs/gate.md

A recorded launch times dense and dense made slower by 3, 6 and 10 % beside the frozen loop. The
first launches are the baseline. *Live* gates take the following ones in the order in which they
were measured, each launch once: a first measurement and, where one is asked for, its confirmation.
*Replays* draw launches with replacement, and add the logarithm of a slow-down to those of dense. A
second recording, of a noisier hour, is replayed beside it.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from bench.gate.check import FINE, REGRESSION, UNDECIDED, Plan, check, new_gauge
from bench.gate.command import BASELINE_LAUNCHES
from bench.gate.measurement import Conditions, Gauged, Measurement
from bench.measure.environment import collect
from bench.processes import start_server
from bench.run_spec import RunSpec
from bench.schema import AGAIN
from bench.spec import Grid
from bench.study_file import study_spec
from bench.timing.launcher import wait_passively
from tests.support.silent import Silent
from tests.support.slowed import SlowedConfig

SIZES = (0.0, 0.03, 0.06, 0.10)
"""Planted slow-downs; 0 is dense itself (A/A)."""
BASELINE = BASELINE_LAUNCHES
REPLAYS = 10_000
CURVE = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10)
PLAN = Plan()
MOST = 4
"""Measurements of a gate that is too noisy at first, and has to confirm what it then sees."""
CONDITIONS = Conditions("vit-digits", 64, "", 1, "", "float32", 1)
Floats = NDArray[np.float64]
PAGE = Path(__file__).parents[2] / "docs" / "gate.md"


def specs() -> list[RunSpec]:
    """Dense first, then it made slower."""
    study = study_spec(None, {"seeds": "0"}, Grid(("dense",), (1.0,), (0,)))
    (dense,) = replace(study, device="cpu").runs()
    slow = [replace(dense, method="slowed", config=SlowedConfig(100 * size)) for size in SIZES[1:]]
    return [dense, *slow]


def record(file: Path, minutes: float) -> None:
    wait_passively()
    start_server("cpu")
    chosen = specs()
    gauge = new_gauge(chosen, Path("results") / "check" / "logs")
    names = {spec.run_id: str(size) for spec, size in zip(chosen, SIZES, strict=True)}
    until = time.monotonic() + 60 * minutes
    number = len(file.read_text().splitlines()) if file.exists() else 0
    while time.monotonic() < until:
        began = time.monotonic()
        gauge.launch(number, lambda: None)
        line = {names.get(key, key): values[-1] for key, values in gauge.log_ratios.items()}
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line | {"seconds": time.monotonic() - began}) + "\n")
        number += 1


class Recorded:
    """Stands in for `Gauge` in the gate's own procedure: launches come from a recording."""

    def __init__(self, next_launch: Callable[[], tuple[float, float]]) -> None:
        self._next = next_launch
        self.log_ratios: dict[str, list[float]] = {"dense": [], AGAIN: []}

    blocks = 0

    def launch(self, number: int, done: Callable[[], None]) -> None:
        dense, again = self._next()
        self.log_ratios["dense"].append(dense)
        self.log_ratios[AGAIN].append(again)

    def measurement(self, launches: slice = slice(None)) -> Measurement:
        return measurement(self.log_ratios["dense"][launches], self.log_ratios[AGAIN][launches])


def measurement(dense: Iterable[float], again: Iterable[float]) -> Measurement:
    gauged = Gauged("dense", 1.0, tuple(dense), {}, 0)
    return Measurement(CONDITIONS, {"dense": gauged}, tuple(again))


def exit_code(before: Measurement, next_launch: Callable[[], tuple[float, float]]) -> int:
    gauge: Any = Recorded(next_launch)
    return check(gauge, before, PLAN, Silent()).code


def live(data: Mapping[str, Floats], before: Measurement, size: float) -> list[int]:
    """Exit codes of gates in the order of measurement; every launch is used once."""
    launches = iter(zip(data[str(size)][BASELINE:], data[AGAIN][BASELINE:], strict=True))
    codes = []
    while True:
        try:
            codes.append(exit_code(before, lambda: next(launches)))
        except StopIteration:
            return codes


def replays(data: Mapping[str, Floats], size: float, rng: np.random.Generator) -> list[int]:
    """Exit codes of gates on launches drawn with replacement, baseline included; `size` is added to
    dense's own launches."""
    pairs = np.column_stack([data["0.0"], data[AGAIN]])
    codes = []
    for _ in range(REPLAYS):
        drawn = pairs[rng.integers(len(pairs), size=BASELINE + MOST * PLAN.launches)]
        before = measurement(drawn[:BASELINE, 0], drawn[:BASELINE, 1])
        drawn[BASELINE:, 0] += log1p(size)
        now = iter(drawn[BASELINE:].tolist())
        codes.append(exit_code(before, lambda now=now: tuple(next(now))))
    return codes


def share(codes: Sequence[int], code: int) -> str:
    """Of gates that ended so, with the exact binomial 95 % interval."""
    hits = sum(each == code for each in codes)
    if not codes:
        return "none"
    interval = binomtest(hits, len(codes)).proportion_ci()
    return f"{hits / len(codes):.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def read(file: Path) -> dict[str, Floats]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {key: np.array([line[key] for line in lines]) for key in lines[0]}


def report(file: Path, noisy: Path | None = None) -> None:
    data = read(file)
    before = measurement(data["0.0"][:BASELINE], data[AGAIN][:BASELINE])
    rng = np.random.default_rng(1)
    live_codes = {size: live(data, before, size) for size in SIZES}
    replayed = {size: replays(data, size, rng) for size in CURVE}
    text = page(data, live_codes, replayed)
    if noisy:
        other = read(noisy)
        text += NOISY.format(
            launches=len(other[AGAIN]),
            spread=spread(other),
            replayed=table({size: replays(other, size, rng) for size in CURVE[::3]}),
        )
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE.read_text())


def spread(data: Mapping[str, Floats]) -> float:
    return float(np.std(data["0.0"], ddof=1))


def table(codes: Mapping[float, list[int]]) -> str:
    heads = ("planted slow-down", "gates", "regression (1)", "could not decide (3)", "fine (0)")
    rows = [
        (f"{size:.0%}", f"{len(c):,}", *(share(c, code) for code in (REGRESSION, UNDECIDED, FINE)))
        for size, c in codes.items()
    ]
    lines = [heads, ["---"] + ["---:"] * 4, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def goal(reached: bool) -> str:
    return "reached" if reached else "missed"


def page(
    data: Mapping[str, Floats],
    live_codes: Mapping[float, list[int]],
    replayed: Mapping[float, list[int]],
) -> str:
    seconds = float(np.median(data["seconds"]))
    offset = float(np.expm1(np.mean(data["0.0"])))
    planted = [float(np.expm1(np.mean(data[str(s)] - data["0.0"]))) for s in SIZES[1:]]
    false_alarms = np.mean([code == REGRESSION for code in replayed[0.0]])
    found = np.mean([code == REGRESSION for code in replayed[2 * PLAN.max_slowdown]])
    goals = [
        (
            "false alarms per gate, by replay",
            "at most 1%",
            f"{false_alarms:.2%}",
            false_alarms <= 0.01,
        ),
        ("twice the threshold found, by replay", "at least 95%", f"{found:.1%}", found >= 0.95),
        ("one gate", "60 s", f"{seconds * PLAN.launches:.0f} s", seconds * PLAN.launches <= 60),
        (
            "the harness's step against the bare loop",
            "within 1%",
            f"{offset:+.2%}",
            abs(offset) <= 0.01,
        ),
    ]
    return TEXT.format(
        goals="\n".join(f"| {a} | {b} | {c} | {goal(bool(d))} |" for a, b, c, d in goals),
        launches=len(data[AGAIN]),
        seconds=seconds,
        minutes=float(np.sum(data["seconds"])) / 60,
        gate_seconds=seconds * PLAN.launches,
        spread=spread(data),
        offset=offset,
        planted=", ".join(f"{value:.1%}" for value in planted),
        live=table(live_codes),
        replayed=table(replayed),
        threshold=PLAN.max_slowdown,
        per_gate=PLAN.launches,
        baseline=BASELINE,
        device=machine(),
    )


def machine() -> str:
    return f"{collect(torch.device('cpu')).device_name}, one thread, torch {torch.__version__}"


TEXT = """# The gate's error rates

Measured by `python -m tests.gate.error_rates`, which also wrote this page: {launches} launches on
{device}. A launch times the frozen loop twice, dense, and dense made slower on
purpose by 3, 6 and 10 % (measured: {planted}). It takes {seconds:.1f} s, so a
gate of {per_gate} launches takes about {gate_seconds:.0f} s with these contenders, and twice that
where a suspicion has to be confirmed. Threshold: {threshold:.0%}.

From launch to launch the ratio of dense to the frozen loop varies by {spread:.2%} (standard
deviation). The harness's own dense step differs from the bare loop by {offset:+.2%} on average.

| goal | | measured | |
| --- | ---: | ---: | --- |
{goals}

Detection is short of its goal by what five launches of this noise can tell: a sixth one would reach
it and make the gate longer. A gate of the default contenders (dense, barter, rigl) has one less
than these launches. Forty live gates without a slow-down and twenty of each size were wanted;
{minutes:.0f} minutes of recording make the numbers below.

## In the order of measurement

The first {baseline} launches are the baseline; the others make gates one after the other, each
launch used once per row. Shares with exact binomial 95 % intervals.

{live}

## Replays

Gates on launches drawn with replacement from the same recording, a new baseline for each; the
slow-down is added to dense's own launches. They show the operating curve as far as {launches}
launches can, not other machines or days.

{replayed}
"""

NOISY = """
## A noisier hour

The same kind of machine on the same day, {launches} launches: the ratio of dense to the frozen loop
varied by {spread:.2%}. The gate then mostly says that it cannot decide, and raises no false alarm
for it.

{replayed}
"""


if __name__ == "__main__":
    command, path, *rest = sys.argv[1:]
    if command == "record":
        record(Path(path), float(rest[0]) if rest else 30.0)
    else:
        report(Path(path), *map(Path, rest))
