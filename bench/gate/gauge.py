"""Measures contenders beside the frozen loop: launches become one number each.

The blocks are short and many: a machine's speed wanders from second to second, and what is compared
has to meet the same second.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np

from bench.gate.measurement import COUNTS, Conditions, Gauged, Measurement
from bench.schema import AGAIN, BARE, BARE_AGAIN, CONTENDER
from bench.spec import RunSpec
from bench.timing.launcher import Block, BlockLength, Entry, Launcher
from bench.timing.messages import Scouted
from bench.timing.segments import Segment, mean_step_ms

ROUNDS = 8
LENGTH = BlockLength(seconds=0.2, fewest=4, most=16, windows=1)


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
    def entries(self) -> list[Entry]:
        bare = [Entry(self.specs[0], BARE), Entry(self.specs[0], BARE_AGAIN)]
        return bare + [Entry(s, CONTENDER, self.known[s.run_id].final) for s in self.specs]

    @property
    def parts(self) -> dict[str, tuple[Segment, ...]]:
        return {run_id: known.parts for run_id, known in self.known.items()}

    def measurement(self, launches: slice = slice(None)) -> Measurement:
        """What has been measured, or a part of the launches."""
        first = self.known[self.specs[0].run_id].run
        spec = self.specs[0]
        return Measurement(
            Conditions(
                workload=spec.workload,
                batch_size=spec.batch_size,
                device_name=str(first["device_name"]),
                threads=int(first["threads"]),
                torch_version=str(first["torch_version"]),
                precision="tf32" if first["tf32"] else "float32",
                bare_version=int(first["bare_version"]),
            ),
            {
                label(spec): Gauged(
                    spec.contender,
                    spec.density,
                    tuple(self.log_ratios[spec.run_id][launches]),
                    counts(self.known[spec.run_id]),
                    int(self.known[spec.run_id].run["stored_parameters"]),
                )
                for spec in self.specs
            },
            tuple(self.log_ratios[AGAIN][launches]),
            first.get("git_commit"),
        )


def label(spec: RunSpec) -> str:
    """A contender's name in baselines and tables."""
    return spec.contender if spec.density == 1 else f"{spec.contender} at {spec.density:g}"


def counts(known: Scouted) -> dict[str, dict[str, int]]:
    return {
        str(row["segment"]): {name: int(row[name]) for name in COUNTS if row.get(name) is not None}
        for row in known.segments
    }


def launch_ratios(
    blocks: Iterable[Block], parts: Mapping[str, Sequence[Segment]]
) -> dict[str, float]:
    """Mean log ratio of each contender (by run id; `again`: the loop itself) to the frozen loop.

    In every round each contender's schedule-weighted mean step stands over the frozen loop's.
    """
    means: dict[tuple[str, int], float] = {}
    for block in blocks:
        times = {name: float(np.mean(ms)) for name, ms in block.answer.times_ms.items()}
        if block.role in (BARE, BARE_AGAIN):
            means[block.role, block.round] = times["ordinary"]
            continue
        own = parts[block.run_id]
        whole = {p.name: times[p.name] * (p.length if p.is_window else 1) for p in own}
        means[block.run_id, block.round] = mean_step_ms(own, whole)
    rounds = {round_ for _, round_ in means}
    keys = dict.fromkeys(key for key, _ in means if key != BARE)
    return {
        AGAIN if key == BARE_AGAIN else key: float(
            np.mean([log(means[key, r] / means[BARE, r]) for r in rounds])
        )
        for key in keys
    }
