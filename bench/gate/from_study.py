"""A baseline from a study that was timed with the frozen loop (`bench run --mode time --bare`).

No torch.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bench.contender_label import label_text
from bench.errors import UsageError
from bench.gate.gauge import counts, label, launch_ratios
from bench.gate.measurement import Conditions, Gauged, Measurement
from bench.measure.observed import Observed
from bench.modes import TIME
from bench.schema import AGAIN, BARE, BARE_AGAIN, CONTENDER, EXECUTION_DEFAULTS, OK
from bench.store import StudyStore
from bench.timing.launcher import Block
from bench.timing.messages import Answer
from bench.timing.segments import Segment

Row = Mapping[str, Any]
SEED = 0
"""Of a gate's contenders: another one gives other topologies, and other counts."""


def from_study(store: StudyStore) -> Measurement:
    """What a gate would have measured of these launches.

    Raises:
        UsageError: no such study, no timed contenders in it, several settings, no dense, or no
            launch with the frozen loop.
    """
    store.require()
    runs = {
        run_id: row
        for run_id, row in store.finished().items()
        if row["status"] == OK and row["mode"] == TIME and row["seed"] == SEED
    }
    if not runs:
        raise UsageError(
            f"study {store.study} timed nothing with seed {SEED}, which a gate uses:"
            f" `bench run --mode time --bare --seeds {SEED}` does"
        )
    _require_gateable(store.study, runs.values())
    dense = next((row for row in runs.values() if row["method"] == "dense"), None)
    if dense is None:
        raise UsageError(f"study {store.study} has no dense contender: a gate needs it")
    segments = _by_run(store.arrow("segments", run_ids=runs).to_pylist())
    ratios = _log_ratios(store, {i: tuple(map(Segment.from_row, segments[i])) for i in runs})
    if not ratios:
        raise UsageError(
            f"study {store.study} was timed without the frozen loop: add it with"
            " `bench run --mode time --bare`, or write a baseline with `bench check --update`"
        )
    return Measurement(
        Conditions.of(dense),
        {
            label(contender, row["density"]): Gauged(
                contender,
                row["density"],
                tuple(launch[run_id] for launch in ratios),
                counts(segments[run_id]),
                int(row["stored_parameters"]),
            )
            for run_id, row in runs.items()
            for contender in [_contender(row)]
        },
        tuple(launch[AGAIN] for launch in ratios),
        dense["git_commit"],
    )


def _require_gateable(study: str, runs: Collection[Row]) -> None:
    """A gate times full schedules of one workload and batch size, executed as usual."""
    settings = {(row["workload"], row["batch_size"]) for row in runs}
    if len(settings) > 1:
        raise UsageError(f"study {study} has {len(settings)} settings: a baseline is of one")
    for row in runs:
        unusual = [n for n, usual in EXECUTION_DEFAULTS.items() if row[n] not in (None, usual)]
        if row["schedule_shortened"]:
            unusual.append("steps")
        if unusual:
            options = ", ".join(f"--{name}" for name in unusual)
            raise UsageError(
                f"study {study} was timed with {options}, which a gate does not: time it without"
            )


def _log_ratios(
    store: StudyStore, parts: Mapping[str, Sequence[Segment]]
) -> list[dict[str, float]]:
    """Of every launch that has all contenders and both entries of the frozen loop."""
    times: dict[tuple[int, str, str, int], dict[str, list[float]]] = defaultdict(dict)
    for row in store.arrow("blocks", run_ids=parts).to_pylist():
        key = (row["launch"], row["run_id"], row["role"], row["round"])
        times[key][row["segment"]] = row["step_ms"]
    launches: dict[int, list[Block]] = defaultdict(list)
    for (launch, run_id, role, round_), taken in times.items():
        launches[launch].append(
            Block(run_id, role, launch, round_, 0, Answer(taken, {}, None), Observed())
        )
    return [
        launch_ratios(blocks, parts)
        for _, blocks in sorted(launches.items())
        if {BARE, BARE_AGAIN} <= {block.role for block in blocks}
        and parts.keys() <= {block.run_id for block in blocks if block.role == CONTENDER}
    ]


def _contender(row: Row) -> str:
    settings = json.loads(row["config_json"])
    changed = sorted(settings["changed_options"])
    return label_text(row["method"], ((name, settings["config"][name]) for name in changed))


def _by_run(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["run_id"]].append(row)
    return found
