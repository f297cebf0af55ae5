"""Times a study's contenders side by side until their ratios are known well enough.

Every launch is recorded as soon as it is over, for all contenders together: an interrupted study
goes on with the next one, and no contender has rounds that the others lack.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from bench import validity
from bench.run_rows import Row, failed_run, run_identity
from bench.run_spec import RunSpec
from bench.schema import AGAIN, CONTENDER, LOOP, OK
from bench.store import StudyStore
from bench.timing.launcher import Block, DoesNotFitError, Entry, Launcher, LaunchError
from bench.timing.messages import Scouted
from bench.timing.run_record import RunRecord, next_launch, read_records

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
    bare: bool = False
    """Whether the frozen loop takes part, so that the study can be a gate's baseline."""


class Watch(Protocol):
    """Shows a person what is going on."""

    def begin(self, specs: Sequence[RunSpec]) -> None:
        """A setting, whose time limit counts from now."""
        ...

    def scouting(self, spec: RunSpec) -> None: ...
    def launching(self, number: int, blocks: int) -> None: ...
    def block_done(self, spec: RunSpec) -> None: ...
    def measured(self, width: float | None, launches: int) -> None:
        """After so many launches the widest interval has this half-width; None: unknown yet."""
        ...

    def left_out(self, spec: RunSpec, row: Row) -> None: ...
    def said(self, text: str) -> None: ...
    def end(self) -> None: ...


Width = Callable[[StudyStore, Sequence[str]], float | None]
"""The widest ratio's half-width over these runs, from their records; None while unknown."""


@dataclass
class _Contender:
    spec: RunSpec
    known: Scouted
    record: RunRecord


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
        self._watch.begin(self._specs)
        recorded = read_records(self._store, [spec.run_id for spec in self._specs])
        if all(spec.run_id in recorded for spec in self._specs) and self._enough(recorded):
            self._watch.said("measured well enough already: nothing to do")
            return []
        contenders = self._scouted(recorded)
        while contenders:
            blocks = self._launch(contenders, next_launch(self._store))
            if blocks is None:
                contenders = [c for c in contenders if c.spec.run_id not in self._bad_ids]
                continue
            for contender in contenders:
                own = contender.spec.run_id
                contender.record.add([block for block in blocks if block.run_id == own])
            if self._record(contenders):
                break
        return self._bad

    @property
    def _bad_ids(self) -> set[str]:
        return {row["run_id"] for row in self._bad}

    def _scouted(self, recorded: Mapping[str, RunRecord]) -> list[_Contender]:
        contenders = []
        for spec in self._specs:
            self._watch.scouting(spec)
            try:
                known = self._launcher.scout(spec)
            except LaunchError as error:
                self._leave_out(spec, error)
            else:
                contenders.append(_Contender(spec, known, recorded.get(spec.run_id, RunRecord())))
        return contenders

    def _launch(self, contenders: Sequence[_Contender], number: int) -> list[Block] | None:
        """Blocks of one launch; None if it has to be repeated, without whoever failed or apart."""
        entries = [Entry(c.spec, CONTENDER, c.known.final) for c in contenders]
        # The first of each execution is a reference: only what is executed alike is compared.
        first = {entry.spec.execution: entry for entry in reversed(entries)}
        entries += [replace(entry, role=AGAIN) for entry in first.values()]
        if self._effort.bare:
            entries += [replace(entries[0], role=role) for role in LOOP]
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
        stopped = self._stopped({c.spec.run_id: c.record for c in contenders})
        if stopped:
            for contender in contenders:
                self._write(contender, stopped)
        return stopped is not None

    def _write(self, contender: _Contender, stopped: str | None) -> None:
        spec, known, record = contender.spec, contender.known, contender.record
        row = {
            **run_identity(spec, self._store.study),
            "reason_codes": [],
            **known.run,
            "status": OK,
            **record.columns(),
            "side_by_side": self._together,
            "stopped": stopped,
            "wall_s": time.monotonic() - self._started,
        }
        validity.add_to(row, record.codes(spec.device))
        tables = {
            "runs": [row],
            "segments": known.segments,
            "blocks": record.blocks,
            "telemetry": record.telemetry(),
        }
        self._store.write_run(spec.run_id, tables)

    def _stopped(self, records: Mapping[str, RunRecord]) -> str | None:
        if self._enough(records):
            return TARGET
        limit = time.monotonic() - self._started > self._effort.time_limit_s
        return TIME_LIMIT if limit else None

    def _enough(self, records: Mapping[str, RunRecord]) -> bool:
        launches = min(record.launches for record in records.values())
        width = self._width(self._store, list(records))
        self._watch.measured(width, launches)
        enough = launches >= self._effort.launches
        if self._effort.bare:
            loop = max(record.loop_launches for record in records.values())
            enough = enough and loop >= self._effort.launches
        return enough and width is not None and width <= self._effort.target
