"""Measures contenders beside the frozen loop: launches become one number each.

A launch gives one number per contender, from ratios within rounds: a machine's speed wanders, and
what is compared has to meet the same second.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

import numpy as np

from bench.gate.measurement import COUNTS, Conditions, Gauged, Measurement
from bench.run_spec import RunSpec
from bench.schema import AGAIN, BARE, BARE_AGAIN, CONTENDER
from bench.timing.launcher import Block, Entry, Launcher
from bench.timing.messages import Scouted
from bench.timing.segments import Segment, mean_step_ms

BARE_SEGMENT = "ordinary"
"""The frozen loop's only one."""


@dataclass
class Gauge:
    """Contenders that are ready to be launched, and what launches have shown so far.

    Args:
        specs: dense first; all of one workload and batch size.
    """

    specs: Sequence[RunSpec]
    launcher: Launcher
    known: Mapping[str, Scouted]
    """By run id."""
    log_ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By run id (and `again`): one per launch."""

    def launch(self, number: int, done: Callable[[], None]) -> None:
        """One more launch. `done` is called after every block.

        Raises:
            LaunchError: a contender failed.
        """
        blocks = []
        for block in self.launcher.side_by_side(self.entries, number):
            blocks.append(block)
            done()
        for key, value in launch_ratios(blocks, self.parts).items():
            self.log_ratios[key].append(value)

    @property
    def blocks(self) -> int:
        """Of one launch."""
        return self.launcher.rounds * len(self.entries)

    @property
    def entries(self) -> list[Entry]:
        bare = [Entry(self.specs[0], BARE), Entry(self.specs[0], BARE_AGAIN)]
        return bare + [Entry(s, CONTENDER, self.known[s.run_id].final) for s in self.specs]

    @property
    def parts(self) -> dict[str, tuple[Segment, ...]]:
        return {run_id: known.parts for run_id, known in self.known.items()}

    def measurement(self, launches: slice = slice(None)) -> Measurement:
        """What has been measured, or a part of the launches."""
        dense = self.specs[0]
        first = self.known[dense.run_id].run
        return Measurement(
            Conditions.of(
                {**first, "workload": dense.workload, "batch_size": dense.batch_size},
            ),
            {
                label(spec.contender, spec.density): Gauged(
                    spec.contender,
                    spec.density,
                    tuple(self.log_ratios[spec.run_id][launches]),
                    counts(self.known[spec.run_id].segments),
                    int(self.known[spec.run_id].run["stored_parameters"]),
                )
                for spec in self.specs
            },
            tuple(self.log_ratios[AGAIN][launches]),
            first.get("git_commit"),
        )


def label(contender: str, density: float) -> str:
    """A contender's name in baselines and tables."""
    return contender if density == 1 else f"{contender} at {density:g}"


def counts(segments: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Of rows of the segments table: segment -> name of the count -> value."""
    return {
        str(row["segment"]): {name: int(row[name]) for name in COUNTS if row.get(name) is not None}
        for row in segments
    }


def launch_ratios(
    blocks: Iterable[Block], parts: Mapping[str, Sequence[Segment]]
) -> dict[str, float]:
    """Log of each contender's mean step (by run id) over the frozen loop's.

    Each segment stands over both entries of the loop in the same round; `again` is one of these
    over the other.
    """
    bare: dict[tuple[str, int], float] = {}
    relative: dict[tuple[str, str], list[float]] = defaultdict(list)
    blocks = list(blocks)
    for block in blocks:
        if block.role in (BARE, BARE_AGAIN):
            bare[block.role, block.round] = _log_mean(block.answer.times_ms[BARE_SEGMENT])
    for block in blocks:
        if block.role == CONTENDER:
            loop = (bare[BARE, block.round] + bare[BARE_AGAIN, block.round]) / 2
            for segment, times in block.answer.times_ms.items():
                relative[block.run_id, segment].append(_log_mean(times) - loop)
    rounds = [number for role, number in bare if role == BARE]
    again = float(np.mean([bare[BARE_AGAIN, r] - bare[BARE, r] for r in rounds]))
    return {AGAIN: again} | {
        run_id: log(
            mean_step_ms(own, {p.name: _mean_ratio(p, relative[run_id, p.name]) for p in own})
        )
        for run_id, own in parts.items()
    }


def _log_mean(times: Sequence[float]) -> float:
    return log(float(np.mean(times)))


def _mean_ratio(part: Segment, log_ratios: Sequence[float]) -> float:
    """Of one step, or of a whole window, in steps of the frozen loop."""
    return exp(float(np.mean(log_ratios))) * (part.length if part.is_window else 1)
