"""`bench run --mode time`: from the command line to recorded launches. No torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from bench.errors import UsageError
from bench.modes import TIME
from bench.processes import start_server
from bench.run_spec import RunSpec
from bench.schema import FAILED
from bench.store import StudyStore
from bench.timing.display import make_watch
from bench.timing.launcher import Launcher, wait_passively
from bench.timing.study import Effort, time_study
from bench.wording import fraction
from reports.side_by_side import widest_half_width

_OPTIONS = {
    "launches": "launches",
    "target": "target",
    "time_limit_min": "time-limit",
    "bare": "bare",
}


def time_command(
    runs: Sequence[RunSpec],
    store: StudyStore,
    device_index: int | None,
    effort: Effort,
    console: Console,
) -> int:
    """Returns the exit code: 0, or 1 if a run failed."""
    wait_passively()
    start_server(runs[0].device)
    launcher = Launcher(store.folder / "logs", device_index)
    watch = make_watch(console, effort)
    try:
        bad = time_study(runs, store, launcher, effort, widest_half_width, watch)
    finally:
        watch.end()
    watch.said(f"next: bench report {store.study}")
    return 1 if any(row["status"] == FAILED for row in bad) else 0


def time_plan(effort: Effort) -> str:
    """What a dry run says: steps of the table are the schedule's, and none is trained."""
    loop = ", beside the frozen loop" if effort.bare else ""
    return (
        f"mode time: blocks of these schedules side by side{loop}, nothing is trained; at least"
        f" {effort.launches} launches, until every ratio's interval is within"
        f" +-{100 * effort.target:g}% or {effort.time_limit_s / 60:g} minutes of a workload and"
        " seed are over"
    )


def read_effort(given: Mapping[str, Any], mode: str = TIME) -> Effort:
    """From options of the command line; None where not given.

    Raises:
        UsageError: fewer than two launches, a target or limit that is not positive, or any of
            them in another mode.
    """
    default = Effort()
    given = {option: value for option, value in given.items() if value is not None}
    if given and mode != TIME:
        names = ", ".join(f"--{_OPTIONS[option]}" for option in given)
        raise UsageError(f"{names}: an option of --mode time alone, and this is --mode {mode}")
    launches = given.get("launches", default.launches)
    if launches < 2:
        raise UsageError(f"--launches {launches}: an interval needs at least 2, better 5")
    minutes = given.get("time_limit_min", default.time_limit_s / 60)
    if not 0 < minutes < float("inf"):
        raise UsageError(f"--time-limit {minutes}: a number of minutes above 0 it must be")
    target = fraction("--target", str(given.get("target", default.target)))
    return Effort(launches, target, 60 * minutes, given.get("bare", default.bare))
