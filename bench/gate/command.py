"""`bench check`: from the command line to an exit code. No torch."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.errors import UsageError
from bench.gate.check import NOT_MEASURED, Outcome, Plan, check, new_gauge
from bench.gate.display import ConsoleWatch
from bench.gate.from_study import from_study
from bench.gate.gauge import Gauge
from bench.gate.measurement import Measurement, load
from bench.gate.outputs import show, write
from bench.measure.devices import ResolvedDevice, resolve
from bench.processes import start_server
from bench.run_spec import RunSpec
from bench.spec import Grid, StudySpec
from bench.store import StudyStore
from bench.study_file import study_spec
from bench.timing.launcher import LaunchError, wait_passively
from bench.wording import fraction

BASELINE_LAUNCHES = 24
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
        baseline: a file, a study that was timed with `--bare`, or the name of a folder under the
            results folder.
        given: options of the command line, as `bench run` has them; None where not given.
        max_slowdown: e.g. `3%` or `0.03`.

    Returns:
        The exit code: 0 fine, 1 regression, 3 could not decide, 4 could not measure.

    Raises:
        UsageError: for anything that no gate could be made of.
    """
    plan = Plan(max_slowdown=fraction("--max-slowdown", max_slowdown))
    path = baseline_path(baseline, results)
    device = resolve(given.get("device") or "auto", given.get("gpu"))
    logs = results / "check" / "logs"
    with ConsoleWatch(console) as watch:
        if update:
            specs = _runs(study_spec(None, given, DEFAULT, to_run=False), device)
            return _update(path, specs, logs, device.index, watch)
        before = _stored(path)
        specs = _specs(before, given, device)
        source = path if path.exists() else f"study {path.parent}"
        watch.said(f"gate against {source} ({before.git_commit or 'commit not recorded'})")
        gauge = _gauge(specs, logs, device.index)
        outcome = gauge if isinstance(gauge, Outcome) else check(gauge, before, plan, watch)
    show(outcome, plan.max_slowdown, console)
    folder = output or results / "check"
    try:
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        for written in write(outcome, plan.max_slowdown, folder, summary):
            watch.said(f"written: {written}")
    except UsageError as error:  # what was found counts, even where it cannot be written
        watch.said(f"not written: {error}")
    return outcome.code


def baseline_path(baseline: str | None, results: Path) -> Path:
    """A file that exists, or where the results folder keeps the baseline of that name."""
    if baseline is None:
        return results / "baseline" / FILE
    if not baseline.strip():
        raise UsageError("--baseline takes a file, or the name of a study or baseline")
    given = Path(baseline)
    if given.suffix == ".json" or given.is_file():
        return given
    return (given if given.is_dir() else results / baseline) / FILE


def _stored(path: Path) -> Measurement:
    """From the file, or else from the study whose folder it would be in."""
    folder = path.parent
    if not path.exists() and folder.name:
        store = StudyStore(folder.parent, folder.name)
        if store.exists():
            return from_study(store)
    return load(path)


def _update(
    path: Path, specs: Sequence[RunSpec], logs: Path, index: int | None, watch: ConsoleWatch
) -> int:
    gauge = _gauge(specs, logs, index)
    if isinstance(gauge, Outcome):
        watch.said(f"could not measure: {gauge.reason}")
        return gauge.code
    watch.expect(BASELINE_LAUNCHES, gauge.blocks)
    for number in range(BASELINE_LAUNCHES):
        try:
            gauge.launch(number, watch.block_done)
        except LaunchError as error:
            watch.said(f"could not measure: {error}")
            return NOT_MEASURED
    gauge.measurement().save(path)
    watch.said(f"baseline written: {path}")
    return 0


def _specs(before: Measurement, given: Mapping[str, Any], device: ResolvedDevice) -> list[RunSpec]:
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
        asked = study_spec(None, values, DEFAULT, to_run=False)
        specs |= dict.fromkeys(_runs(asked, device, with_dense=False))
    return sorted(specs, key=_dense_first)


def _runs(asked: StudySpec, device: ResolvedDevice, with_dense: bool = True) -> list[RunSpec]:
    """On the device that this machine has; dense first, which is always measured."""
    gpu = device.name if device.kind == "cuda" else None
    specs = sorted(replace(asked, device=device.kind, gpu=gpu).runs(), key=_dense_first)
    if with_dense and specs[0].method != "dense":
        raise UsageError("a gate measures dense too: name it among the methods")
    return specs


def _dense_first(spec: RunSpec) -> bool:
    return spec.method != "dense"


def _gauge(specs: Sequence[RunSpec], logs: Path, index: int | None) -> Gauge | Outcome:
    wait_passively()
    start_server(specs[0].device)
    try:
        return new_gauge(specs, logs, index)
    except LaunchError as error:
        return Outcome(NOT_MEASURED, str(error))
