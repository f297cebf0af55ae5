"""Times a study's contenders side by side until their ratios are known well enough.

Every launch is recorded as soon as it is over, for all contenders together: an interrupted study
goes on with the next one, and no contender has rounds that the others lack.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from bench.run_rows import Row, failed_run, run_identity
from bench.schema import AGAIN, CONTENDER, OK
from bench.spec import RunSpec
from bench.store import StudyStore
from bench.timing.launcher import Block, DoesNotFitError, Entry, Launcher, LaunchError
from bench.timing.messages import Scouted

TARGET, TIME_LIMIT = "target reached", "time limit"


@dataclass(frozen=True)
class Effort:
    """When enough has been measured."""

    launches: int = 5
    """At least; an interval over launches wants five."""
    target: float = 0.02
    """Half the width of every ratio's 95 % interval, as a fraction of the ratio."""
    time_limit_s: float = 600.0
    """Of one setting; a launch that has begun is finished."""


class Watch(Protocol):
    """Shows a person what is going on."""

    def scouting(self, spec: RunSpec) -> None: ...
    def launching(self, number: int, blocks: int) -> None: ...
    def block_done(self, spec: RunSpec) -> None: ...
    def left_out(self, spec: RunSpec, row: Row) -> None: ...
    def said(self, text: str) -> None: ...


Width = Callable[[StudyStore, Sequence[str]], float | None]
"""The widest ratio's half-width over these runs, from their records; None while unknown."""


@dataclass
class _Contender:
    spec: RunSpec
    known: Scouted
    blocks: list[Row]
    """Rows of the table, of all launches so far."""

    @property
    def launches(self) -> int:
        return len({row["launch"] for row in self.blocks})


def time_study(
    runs: Sequence[RunSpec],
    store: StudyStore,
    launcher: Launcher,
    effort: Effort,
    width: Width,
    watch: Watch,
) -> list[Row]:
    """Time every setting (workload and seed) of a study; contenders of one are compared.

    Returns:
        The row of every run that failed or was skipped.
    """
    store.clean_partial()
    bad: list[Row] = []
    for _, members in groupby(runs, key=lambda spec: (spec.workload, spec.seed)):
        bad += _Setting(list(members), store, launcher, effort, width, watch).run()
    return bad


class _Setting:
    """Contenders that are compared with one another, and the launches that they share."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        store: StudyStore,
        launcher: Launcher,
        effort: Effort,
        width: Width,
        watch: Watch,
    ) -> None:
        self._specs, self._store, self._launcher = specs, store, launcher
        self._effort, self._width, self._watch = effort, width, watch
        self._bad: list[Row] = []
        self._together = True
        self._started = time.monotonic()

    def run(self) -> list[Row]:
        recorded = _recorded(self._store, [spec.run_id for spec in self._specs])
        if all(spec.run_id in recorded for spec in self._specs) and self._enough(recorded):
            self._watch.said("measured well enough already: nothing to do")
            return []
        contenders = self._scouted(recorded)
        while contenders:
            number = max((row["launch"] for c in contenders for row in c.blocks), default=-1) + 1
            blocks = self._launch(contenders, number)
            if blocks is None:
                contenders = [c for c in contenders if c.spec.run_id not in self._bad_ids]
                continue
            for contender in contenders:
                contender.blocks += _rows(blocks, contender.spec.run_id)
            if self._record(contenders):
                break
        return self._bad

    @property
    def _bad_ids(self) -> set[str]:
        return {row["run_id"] for row in self._bad}

    def _scouted(self, recorded: Mapping[str, list[Row]]) -> list[_Contender]:
        contenders = []
        for spec in self._specs:
            self._watch.scouting(spec)
            try:
                known = self._launcher.scout(spec)
            except LaunchError as error:
                self._leave_out(spec, error)
            else:
                contenders.append(_Contender(spec, known, recorded.get(spec.run_id, [])))
        return contenders

    def _launch(self, contenders: Sequence[_Contender], number: int) -> list[Block] | None:
        """Blocks of one launch; None if it has to be repeated, without whoever failed or apart."""
        entries = [Entry(c.spec, CONTENDER, c.known.final) for c in contenders]
        # The first of each execution is a reference: only what is executed alike is compared.
        first = {entry.spec.execution: entry for entry in reversed(entries)}
        entries += [replace(entry, role=AGAIN) for entry in first.values()]
        self._watch.launching(number, self._launcher.rounds * len(entries))
        make = self._launcher.side_by_side if self._together else self._launcher.apart
        try:
            return list(self._watched(make(entries, number), entries))
        except DoesNotFitError as error:
            self._watch.said(f"{error}: from now on every block has a fresh process")
            self._together = False
        except LaunchError as error:
            if self._together and "out of memory" in error.reason:
                self._watch.said(f"{error}: from now on every block has a fresh process")
                self._together = False
            else:
                self._leave_out(error.entry.spec, error)
        return None

    def _watched(self, blocks: Iterable[Block], entries: Sequence[Entry]) -> Iterator[Block]:
        specs = {entry.spec.run_id: entry.spec for entry in entries}
        for block in blocks:
            self._watch.block_done(specs[block.run_id])
            yield block

    def _leave_out(self, spec: RunSpec, error: LaunchError) -> None:
        row = failed_run(run_identity(spec, self._store.study), error.reason, error.status)
        self._store.write_run(spec.run_id, {"runs": [row]})
        self._bad.append(row)
        self._watch.left_out(spec, row)

    def _record(self, contenders: Sequence[_Contender]) -> bool:
        """Write all launches so far, and say whether they are enough."""
        for contender in contenders:
            self._write(contender, None)
        stopped = self._stopped({c.spec.run_id: c.blocks for c in contenders})
        if stopped:
            for contender in contenders:
                self._write(contender, stopped)
        return stopped is not None

    def _write(self, contender: _Contender, stopped: str | None) -> None:
        spec, known = contender.spec, contender.known
        row = {
            **run_identity(spec, self._store.study),
            **known.run,
            "status": OK,
            "reason_codes": [],
            "launches": contender.launches,
            "side_by_side": self._together,
            "stopped": stopped,
            "wall_s": time.monotonic() - self._started,
        }
        tables = {"runs": [row], "segments": known.segments, "blocks": contender.blocks}
        self._store.write_run(spec.run_id, tables)

    def _stopped(self, blocks: Mapping[str, list[Row]]) -> str | None:
        if self._enough(blocks):
            return TARGET
        limit = time.monotonic() - self._started > self._effort.time_limit_s
        return TIME_LIMIT if limit else None

    def _enough(self, blocks: Mapping[str, list[Row]]) -> bool:
        launches = min(len({row["launch"] for row in rows}) for rows in blocks.values())
        if launches < self._effort.launches:
            return False
        width = self._width(self._store, list(blocks))
        if width is not None:
            self._watch.said(f"widest interval: +-{width:.1%} after {launches} launches")
        return width is not None and width <= self._effort.target


def _recorded(store: StudyStore, run_ids: Sequence[str]) -> dict[str, list[Row]]:
    """Blocks of runs that have been timed before."""
    known = {i for i, row in store.finished().items() if row["status"] == OK and i in run_ids}
    blocks: dict[str, list[Row]] = {run_id: [] for run_id in known}
    if known:
        for row in store.arrow("blocks", run_ids=known).to_pylist():
            blocks[row["run_id"]].append(row)
    return blocks


def _rows(blocks: Iterable[Block], run_id: str) -> list[Row]:
    """Rows of one run's blocks: one per segment."""
    return [
        {
            "run_id": run_id,
            "role": block.role,
            "launch": block.launch,
            "round": block.round,
            "position": block.position,
            "segment": segment,
            "step_ms": times,
            "foreign_cpu_cores": block.answer.foreign_cpu_cores,
        }
        for block in blocks
        if block.run_id == run_id
        for segment, times in block.answer.times_ms.items()
    ]
