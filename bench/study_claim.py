"""What the results folder already holds under a study's name, and what may be added to it."""

import json
from dataclasses import replace
from typing import Any

from bench.errors import UsageError
from bench.execution import Execution
from bench.files import read_json, write_json_atomically
from bench.spec import Grid, StudySpec
from bench.store import StudyStore

_AXES = ("methods", "densities", "seeds")


def claim(store: StudyStore, spec: StudySpec) -> None:
    """Note in the results folder what the study is.

    Raises:
        UsageError: the folder cannot be written, or holds a different study of that name.
    """
    whole = together(store, spec)
    store.check_writable()
    write_json_atomically(store.study_file, json.loads(whole.to_json()))


def together(store: StudyStore, spec: StudySpec) -> StudySpec:
    """The study that the results folder holds after this request: grids and methods (with their
    options) may be added under one name, everything else must agree.

    Raises:
        UsageError: the folder holds a different study of that name.
    """
    if not store.study_file.exists():
        return spec
    there = recorded(store)
    for key, value in spec.shared().items():
        _refuse_difference(store, key, there.shared()[key], value)
    # Options of a method that stands in no grid had no effect, and bind nobody.
    mine = {m: dict(table) for m, table in spec.options if m in spec.method_names}
    theirs = {m: dict(table) for m, table in there.options if m in there.method_names}
    for method in sorted(spec.method_names & there.method_names):
        old, new = theirs.get(method, {}), mine.get(method, {})
        for key in sorted(old.keys() | new.keys()):
            _refuse_difference(store, f"options.{method}.{key}", old.get(key), new.get(key))
    rates = {(task, method): rate for task, method, rate in there.rates}
    for task, method, rate in spec.rates:
        _refuse_difference(store, f"{method}'s rate", rates.get((task, method), rate), rate)
        rates[task, method] = rate
    grids, known = list(there.grids), set(there.runs())
    for grid in spec.grids:
        adds = set(replace(spec, grids=(grid,)).runs()) - known
        if adds:
            grids.append(grid)
            known |= adds
    options = sorted((theirs | mine).items())
    merged = tuple((method, tuple(sorted(table.items()))) for method, table in options)
    found = tuple((*named, rate) for named, rate in sorted(rates.items()))
    return replace(spec, grids=tuple(grids), options=merged, rates=found)


def recorded(store: StudyStore) -> StudySpec:
    """The study as it was noted in its folder.

    Raises:
        UsageError: the file was not written by this program.
    """
    content = read_json(store.study_file)
    try:
        if "grids" not in content:  # written when a study was a single grid
            content["grids"] = [{axis: content.pop(axis) for axis in _AXES}]
        content["grids"] = tuple(
            Grid(
                **{axis: tuple(grid.pop(axis)) for axis in _AXES},
                execution=Execution(**grid.pop("execution", {})),  # which older ones lack
                **grid,
            )
            for grid in content["grids"]
        )
        content["datasets"] = tuple(content.get("datasets", ()))
        content["rates"] = tuple(map(tuple, content.get("rates", ())))
        content["options"] = tuple((m, tuple(map(tuple, o))) for m, o in content["options"])
        spec = StudySpec(**content | {"workloads": tuple(content["workloads"])})
        spec.check()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{store.study_file} is not a study of this program: choose another name"
        ) from error
    return spec


def _refuse_difference(store: StudyStore, key: str, there: Any, asked: Any) -> None:
    if there != asked:
        raise UsageError(
            f"study {store.study!r} in {store.root} is another one ({key} {_show(there)},"
            f" not {_show(asked)}): choose another name with --study"
        )


def _show(value: Any) -> str:
    if value is None:
        return "by default"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
