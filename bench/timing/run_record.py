"""What is recorded of one run that is timed in blocks: blocks and telemetry, launch by launch."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import validity
from bench.measure.observed import Observed
from bench.run_rows import Row
from bench.schema import LOOP, OK
from bench.store import StudyStore
from bench.timing.cautions import cautions, foreign_cpu_cores
from bench.timing.launcher import Block


@dataclass
class RunRecord:
    """Of all launches so far, those of earlier calls among them."""

    blocks: list[Row] = field(default_factory=list)
    """Rows of the table."""
    observed: dict[int, Observed] = field(default_factory=dict)
    """By launch: what was seen of the GPU while this run's blocks were timed."""

    @property
    def launches(self) -> int:
        return len({row["launch"] for row in self.blocks})

    @property
    def loop_launches(self) -> int:
        """Those in which the frozen loop's blocks are recorded here."""
        return len({row["launch"] for row in self.blocks if row["role"] in LOOP})

    @property
    def own(self) -> list[Row]:
        """Without the frozen loop's."""
        return [row for row in self.blocks if row["role"] not in LOOP]

    def add(self, blocks: Sequence[Block]) -> None:
        """The run's blocks of one launch."""
        for block in blocks:
            self.blocks += _rows(block)
            if block.role in LOOP:
                continue  # what was seen then says nothing of this run
            before = self.observed.get(block.launch, Observed())
            self.observed[block.launch] = before + block.observed

    def telemetry(self) -> list[Row]:
        return [
            {"launch": launch, **row}
            for launch, seen in sorted(self.observed.items())
            for row in seen.rows()
        ]

    def columns(self) -> Row:
        """Of the run's row: what was observed while it was timed, but for its codes."""
        # Launches that nobody watched would be steps without energy.
        watched = self.observed.keys() >= {row["launch"] for row in self.blocks}
        seen = Observed.together(self.observed.values()) if watched else Observed()
        steps = sum(len(row["step_ms"]) + (row["unscored_steps"] or 0) for row in self.own)
        return {
            "launches": self.launches,
            "foreign_cpu_cores": foreign_cpu_cores(self.own),
            "energy_j_per_step": validity.per_step(seen, steps),
        }

    def codes(self, device: str) -> list[str]:
        """Why the run deserves caution; `device` is the kind that its steps ran on."""
        return cautions(device, self.own, self.observed)


def read_records(store: StudyStore, run_ids: Iterable[str]) -> dict[str, RunRecord]:
    """Of those of the runs that have been timed before."""
    known = {i for i, row in store.finished().items() if row["status"] == OK} & set(run_ids)
    records = {run_id: RunRecord() for run_id in known}
    if not known:
        return records
    for row in store.arrow("blocks", run_ids=known).to_pylist():
        records[row["run_id"]].blocks.append(row)
    telemetry: Mapping[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in store.arrow("telemetry", run_ids=known).to_pylist():
        telemetry[row["run_id"], row["launch"]].append(row)
    for (run_id, launch), rows in telemetry.items():
        records[run_id].observed[launch] = Observed.from_rows(rows)
    return records


def next_launch(store: StudyStore) -> int:
    """A number that no launch of the study has had: runs of different launches are never paired."""
    launches = store.arrow("blocks", ["launch"])["launch"].to_pylist()
    return max(launches, default=-1) + 1


def _rows(block: Block) -> list[Row]:
    """One per segment."""
    return [
        {
            "run_id": block.run_id,
            "role": block.role,
            "launch": block.launch,
            "round": block.round,
            "position": block.position,
            "segment": segment,
            "step_ms": times,
            "unscored_steps": block.answer.unscored_steps[segment],
            "foreign_cpu_cores": block.answer.foreign_cpu_cores,
            "reason_codes": list(block.answer.reason_codes),
        }
        for segment, times in block.answer.times_ms.items()
    ]
