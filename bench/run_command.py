"""`bench run`: from what was asked for to recorded runs. No torch before they start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.checkpoints.policy import Checkpointing
from bench.datasets.location import Place
from bench.errors import UsageError
from bench.lock import exclusive
from bench.modes import TIME
from bench.run_spec import RunSpec
from bench.schema import OK
from bench.spec import StudySpec
from bench.store import StudyStore
from bench.study_claim import claim, together
from bench.study_file import study_spec
from bench.wide_table import print_whole
from bench.wording import count, say

DEFAULT_RESULTS = Path("results")


@dataclass(frozen=True)
class Manner:
    """How studies are run. Nothing here changes a result. Raises UsageError for no jobs."""

    results: Path
    console: Console
    dry_run: bool = False
    """Whether the runs are only listed."""
    effort: Mapping[str, Any] = field(default_factory=dict)
    """Of mode `time`: launches, target, time_limit_min; None where not given."""
    place: Place = field(default_factory=Place)
    """Where the data sets are."""
    checkpointing: Checkpointing = field(default_factory=Checkpointing)
    jobs: int = 1
    """Runs of mode `train` at once."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: at least 1 run at a time it must be")


def run_command(file: Path | None, given: Mapping[str, Any], manner: Manner) -> int:
    """Run the study that a file and options ask for.

    Returns:
        The exit code: 0, or 1 if a run failed.

    Raises:
        UsageError: anything that no run could be made of.
    """
    return run_asked(_asked(file, given, manner), manner)


def _asked(file: Path | None, given: Mapping[str, Any], manner: Manner) -> StudySpec:
    from bench.datasets.study import with_data
    from bench.starts import continued_study

    name = given.get("continue_from")
    if name is None:
        options = {key: value for key, value in given.items() if key != "continue_from"}
        return study_spec(file, with_data(options, manner.place))
    others = [key for key, value in given.items() if value is not None]
    others = [key for key in others if key not in ("continue_from", "name")]
    if file or others:
        extra = f"--{others[0].replace('_', '-')}" if others else str(file)
        raise UsageError(f"--continue-from {name}: every run goes on as it was; leave out {extra}")
    spec = continued_study(name, manner.results)
    return replace(spec, name=given.get("name") or spec.name)


def run_asked(asked: StudySpec, manner: Manner) -> int:
    """Run a study on this machine, as `run_command` does."""
    from bench.capability import refuse_impossible
    from bench.datasets.study import find_data
    from bench.datasets.watch import ConsoleWatch
    from bench.display import make_display
    from bench.measure.devices import resolve
    from bench.runner import pending_runs, run_study
    from bench.running_note import Noting
    from bench.starts import with_starts
    from bench.timing.command import read_effort, time_command, time_plan

    console = manner.console
    device = resolve(asked.device, asked.gpu)
    for execution in dict.fromkeys(grid.execution for grid in asked.grids):
        refuse_impossible(execution, device)
    efforts = read_effort(manner.effort, asked.mode)
    if asked.mode == TIME and manner.jobs > 1:
        raise UsageError(f"--jobs {manner.jobs}: mode time runs one contender at a time")
    spec = replace(asked, device=device.kind, gpu=device.name if device.kind == "cuda" else None)
    store = StudyStore(manner.results, spec.name)
    spec, runs = find_data(spec, manner.place, ConsoleWatch(console))
    runs = with_starts(spec, runs, manner.results)
    if manner.dry_run:
        together(store, spec)
        _print_runs(spec, runs, {run.run_id for run in pending_runs(runs, store)}, store, console)
        if spec.mode == TIME:
            say(console, time_plan(efforts))
        return 0
    claim(store, spec)
    try:
        with exclusive(store.folder):
            where = f"{device.kind} ({device.name}), records in {store.folder}"
            say(console, f"study {spec.name} on {where}")
            if spec.mode == TIME:
                return time_command(runs, store, device.index, efforts, console)
            display = Noting(make_display(console), store)
            keeping = manner.checkpointing
            outcome = run_study(runs, store, device.index, display, keeping, manner.jobs)
    except KeyboardInterrupt:
        kept = sum(row["status"] == OK for row in store.finished().values())
        say(console, f"interrupted; {count(kept, 'finished run')} kept, the same call goes on")
        raise
    done, failed = len(outcome.rows), len(outcome.failed)
    text = f"{count(done, 'run')} done, {outcome.already_finished} kept from before"
    say(console, f"{text}; {failed} failed, see above" if failed else text)
    say(console, f"next: bench report {spec.name}{results_option(manner.results)}")
    return 1 if outcome.failed else 0


def results_option(results: Path) -> str:
    """What a further command needs to find this results folder."""
    return "" if results == DEFAULT_RESULTS else f" --results {results}"


def _print_runs(
    spec: StudySpec,
    runs: Sequence[RunSpec],
    pending: set[str],
    store: StudyStore,
    console: Console,
) -> None:
    for workload in spec.workloads:
        here = [run for run in runs if run.workload == workload]
        table = Table(title=workload, title_justify="left", box=box.SIMPLE)
        columns = ["run", "method", "density", "seed", "steps", "batch", "state"]
        if any(run.start for run in here):
            columns.append("starts from")
        if any(run.unusual for run in here):
            columns.append("execution")
        for name in columns:
            table.add_column(name, no_wrap=True)
        for run in here:
            cells = {
                "run": run.run_id,
                "method": run.contender,
                "density": f"{run.density:g}",
                "seed": str(run.seed),
                "steps": f"{run.total_steps:,}",
                "batch": f"{run.batch_size:,}",
                "state": "to do" if run.run_id in pending else "finished",
                "starts from": run.start.run_id if run.start else "",
                "execution": run.unusual,
            }
            table.add_row(*(cells[name] for name in columns))
        print_whole(table, console)
    say(console, f"study {spec.name}: records would go to {store.folder}; nothing was run")
