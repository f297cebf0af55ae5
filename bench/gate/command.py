"""`bench check`: from the command line to an exit code. No torch."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.errors import UsageError
from bench.gate.check import NOT_MEASURED, Outcome, Plan, check, new_gauge
from bench.gate.gauge import Gauge
from bench.gate.measurement import Measurement, load
from bench.gate.outputs import show, write
from bench.measure.devices import resolve
from bench.processes import start_server
from bench.spec import Grid, RunSpec
from bench.study_file import study_spec
from bench.timing.launcher import LaunchError, wait_passively
from bench.wording import fraction

BASELINE_LAUNCHES = 12
"""A baseline is measured once and used often: it should add little to a gate's own noise."""
DEFAULT = Grid(methods=("dense", "barter", "rigl"), densities=(0.3,), seeds=(0,))
FILE = "baseline.json"


def check_command(
    baseline: str | None,
    given: Mapping[str, Any],
    max_slowdown: str,
    update: bool,
    results: Path,
    output: Path | None,
    console: Console,
) -> int:
    """Measure and compare, or write a baseline.

    Args:
        baseline: a file, or the name of a folder under the results folder.
        given: options of the command line, as `bench run` has them; None where not given.
        max_slowdown: e.g. `3%` or `0.03`.

    Returns:
        The exit code: 0 fine, 1 regression, 3 could not decide, 4 could not measure.

    Raises:
        UsageError: for anything that no gate could be made of.
    """
    plan = Plan(max_slowdown=fraction("--max-slowdown", max_slowdown))
    path = baseline_path(baseline, results)
    if update:
        return _update(path, given, results, console)
    before = load(path)
    specs = _specs(before, given)
    _say(console, f"gate against {path} ({before.git_commit or 'commit not recorded'})")
    gauge = _gauge(specs, results)
    if isinstance(gauge, Outcome):
        outcome = gauge
    else:
        outcome = check(gauge, before, plan, lambda text: _say(console, text))
    show(outcome, plan.max_slowdown, console)
    folder = output or results / "check"
    for written in write(outcome, plan.max_slowdown, folder, os.environ.get("GITHUB_STEP_SUMMARY")):
        _say(console, f"written: {written}")
    return outcome.code


def baseline_path(baseline: str | None, results: Path) -> Path:
    """A file that exists, or where the results folder keeps the baseline of that name."""
    if baseline is None:
        return results / "baseline" / FILE
    given = Path(baseline)
    if given.suffix == ".json" or given.is_file():
        return given
    return (given if given.is_dir() else results / baseline) / FILE


def _update(path: Path, given: Mapping[str, Any], results: Path, console: Console) -> int:
    asked = study_spec(None, given, DEFAULT, to_run=False)
    gauge = _gauge(_resolved(asked.runs(), given), results)
    if isinstance(gauge, Outcome):
        _say(console, f"could not measure: {gauge.reason}")
        return gauge.code
    for number in range(BASELINE_LAUNCHES):
        _say(console, f"launch {number + 1} of {BASELINE_LAUNCHES}")
        try:
            gauge.launch(number, lambda: None)
        except LaunchError as error:
            _say(console, f"could not measure: {error}")
            return NOT_MEASURED
    gauge.measurement().save(path)
    _say(console, f"baseline written: {path}")
    return 0


def _specs(before: Measurement, given: Mapping[str, Any]) -> list[RunSpec]:
    """The baseline's contenders.

    Raises:
        UsageError: an option asks for what the baseline is not of.
    """
    there = before.conditions
    for option in ("methods", "density"):
        if given.get(option) is not None:
            raise UsageError(f"--{option} belongs to --update: a baseline says what is measured")
    for option, value in (("workload", there.workload), ("batch_size", there.batch_size)):
        if given.get(option) not in (None, value):
            name = option.replace("_", "-")
            raise UsageError(f"the baseline has --{name} {value}, not {given[option]}")
    specs: dict[RunSpec, None] = {}
    for entry in before.contenders.values():
        values = {
            "workload": there.workload,
            "batch_size": there.batch_size,
            "methods": entry.method,
            "density": str(entry.density),
            "seeds": "0",
        }
        specs |= dict.fromkeys(study_spec(None, values, DEFAULT, to_run=False).runs())
    return _resolved(list(specs), given)


def _resolved(specs: Sequence[RunSpec], given: Mapping[str, Any]) -> list[RunSpec]:
    """With the device that this machine has; dense first, which is always measured."""
    device = resolve(given.get("device") or "auto", given.get("gpu"))
    gpu = device.name if device.kind == "cuda" else None
    specs = [replace(spec, device=device.kind, gpu=gpu) for spec in specs]
    if not any(spec.method == "dense" for spec in specs):
        raise UsageError("a gate measures dense too: name it among the methods")
    return sorted(specs, key=lambda spec: spec.method != "dense")


def _gauge(specs: Sequence[RunSpec], results: Path) -> Gauge | Outcome:
    wait_passively()
    start_server(specs[0].device)
    try:
        return new_gauge(specs, results / "check" / "logs", None)
    except LaunchError as error:
        return Outcome(NOT_MEASURED, str(error))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
