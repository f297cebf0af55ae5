"""The experiment `settings`: every value of each workload's recipe, and where it comes from."""

import json
from collections.abc import Sequence

from reports.experiment_family import Family
from reports.load import Run
from reports.published import DERIVED_SETTINGS
from reports.table import Column, Section, Table

PREFIX = "recipe."
CHOSEN = "chosen"
_PLAIN = {"null": "none", "true": "yes", "false": "no"}


def tables(family: Family) -> list[Table]:
    runs = family.here.records.runs
    workloads = list(dict.fromkeys(run["workload"] for run in runs))
    columns = [Column("setting", "setting", text=True)]
    rows: dict[str, dict[str, str | None]] = {}
    for workload in workloads:
        columns += [
            Column(workload, workload, text=True),
            Column(f"{workload}_source", "source", text=True),
        ]
        for key, (value, source) in _settings(workload, runs).items():
            row = rows.setdefault(key, {"setting": key})
            row |= {workload: value, f"{workload}_source": source}
    counts = ", ".join(f"{w} {sum(run['workload'] == w for run in runs)}" for w in workloads)
    notes = [
        "As recorded in the configuration of every run; several values where runs differ. Nothing "
        f"is measured here: no interval, no device. n, runs (left-out ones have a configuration, "
        f"too): {counts}.",
        "Source: paper, the published text says it; derived, it follows from published numbers; "
        "chosen, the project's own decision. The numbers of the paper's Table 5 are not in the "
        "specification, so no published column stands here.",
    ]
    sections = [Section("", columns, list(rows.values()))]
    return [Table("experiment_settings", "Training settings", sections, notes)]


def _settings(workload: str, runs: Sequence[Run]) -> dict[str, tuple[str, str | None]]:
    """Setting -> value and source, of all runs of a workload."""
    values: dict[str, dict[str, None]] = {}
    chosen: set[str] = set()
    for run in (run for run in runs if run["workload"] == workload):
        chosen |= set(json.loads(run.config.get(f"{PREFIX}{CHOSEN}", "[]")))
        for key, value in run.config.items():
            name = key.removeprefix(PREFIX)
            if key.startswith(PREFIX) and name != CHOSEN:
                values.setdefault(name, {})[_PLAIN.get(value, value)] = None
    return {
        name: ("; ".join(found), _source(workload, name, found, chosen))
        for name, found in values.items()
    }


def _source(workload: str, name: str, values: dict[str, None], chosen: set[str]) -> str | None:
    """None for what the recipe does without: that has no source."""
    if list(values) == ["none"]:
        return None
    if any(name == other or name.startswith(f"{other}.") for other in chosen):
        return CHOSEN
    return "derived" if name in DERIVED_SETTINGS.get(workload, ()) else "paper"
