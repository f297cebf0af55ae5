"""`bench status`: every run of a study, done or not. No torch."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.errors import UsageError
from bench.lock import holder
from bench.modes import TIME
from bench.run_spec import RunSpec
from bench.runner import steps_done
from bench.running_note import running_note
from bench.schema import OK
from bench.starts import planned_starts
from bench.store import StudyStore, studies
from bench.study_claim import recorded
from bench.wide_table import print_whole
from bench.wording import count, flops, say

RUNNING, TO_DO, FINISHED = "running", "to do", "finished"


@dataclass(frozen=True)
class State:
    """Where a run is."""

    run: RunSpec
    state: str
    steps: int
    """Done and recorded, or kept in a checkpoint."""
    detail: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        run = self.run
        named = (run.run_id, run.workload, run.contender, f"{run.density:g}", str(run.seed))
        return (*named, self.state, f"{self.steps:,} of {run.total_steps:,}", self.detail)


def status_command(study: str | None, results: Path, console: Console) -> None:
    """Print the runs of a study, by default of the one that is being run or was changed last.

    Raises:
        UsageError: there is no such study, or its folder is damaged.
    """
    store = StudyStore(results, study or _latest(results))
    store.require()
    states = states_of(store)
    table = Table(title=store.study, title_justify="left", box=box.SIMPLE)
    for name in ("run", "workload", "method", "density", "seed", "state", "steps", "detail"):
        table.add_column(name, no_wrap=name != "detail")
    for state in states:
        table.add_row(*state.cells)
    print_whole(table, console)
    counts = Counter(state.state for state in states)
    process = holder(store.folder)
    by = f"; process {process} is at it" if process else ""
    parts = ", ".join(f"{number} {state}" for state, number in counts.items())
    say(console, f"{count(len(states), 'run')}: {parts}{by}")


def states_of(store: StudyStore) -> list[State]:
    """Every run that the study asks for. Raises UsageError as `status_command`."""
    spec = recorded(store)
    rows, incomplete = store.finished(), set(store.incomplete())
    notes = running_note(store) if holder(store.folder) else {}
    runs = planned_starts(spec, spec.runs(), store.root)
    return [_state(run, store, rows, incomplete, notes) for run in runs]


def _state(
    run: RunSpec,
    store: StudyStore,
    rows: Mapping[str, Mapping[str, Any]],
    incomplete: set[str],
    notes: Mapping[str, Mapping[str, Any]],
) -> State:
    row = rows.get(run.run_id)
    if note := notes.get(run.run_id):
        return State(run, RUNNING, note.get("step", 0), _going_on(note))
    if row is None or run.run_id in incomplete:
        done = _kept_steps(run, store)
        detail = "goes on from its checkpoint" if done else ""
        return State(run, TO_DO, done, detail)
    if row["status"] != OK:
        return State(run, row["status"], 0, row["reason"] or "")
    if row["mode"] == TIME:
        return State(run, FINISHED, 0, f"{count(row['launches'] or 0, 'launch', 'launches')}")
    parts = []
    if row["test_top1_percent"] is not None:
        parts.append(f"test top-1 {row['test_top1_percent']:.1f} %")
    if row["training_macs_total"] is not None:
        spent = row["training_macs_total"] + (row["training_macs_before"] or 0.0)
        parts.append(flops(2 * spent))
    if row["wall_s"] is not None:
        parts.append(f"{row['wall_s']:.0f} s")
    return State(run, FINISHED, run.total_steps, ", ".join(parts))


def _going_on(note: Mapping[str, Any]) -> str:
    parts = [f"loss {note['loss']:.3f}"] if "loss" in note else []
    if note.get("validation_top1_percent") is not None:
        parts.append(f"validation {note['validation_top1_percent']:.1f} %")
    if note.get("training_flops"):
        parts.append(flops(note["training_flops"]))
    return ", ".join(parts)


def _kept_steps(run: RunSpec, store: StudyStore) -> int:
    try:
        return steps_done(replace(run, stored=None), store)
    except UsageError:
        return 0  # `bench run` will say what is wrong with that checkpoint


def _latest(results: Path) -> str:
    found = studies(results)
    if not found:
        raise UsageError(f"no study in {results}: start one with `bench run`")
    return found[0]
