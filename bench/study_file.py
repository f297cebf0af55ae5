"""Where a StudySpec comes from: command line over study file over defaults; without both, the
demo.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bench.contender_label import parse_label
from bench.errors import UsageError
from bench.execution import RECOMPUTABLE, Execution, recomputed
from bench.method_options import Options, nearest
from bench.modes import TRAIN
from bench.spec import REAL, SYNTHETIC, Grid, StudySpec
from bench.workloads.registry import get_workload

WORKLOADS = ("vit-digits",)

DEFAULT = Grid(methods=("dense", "static", "barter"), densities=(0.3,), seeds=(0, 1, 2))
"""What is not said of any other study."""

DEMO = (
    Grid(
        methods=("dense", "static", "barter", "set", "snfs", "rigl", "srigl", "s2vite"),
        densities=(0.3,),
        seeds=(0, 1),
    ),
    Grid(methods=("rigl", "barter"), densities=(0.1, 0.5, 0.7), seeds=(0,)),
    # An interval of two seeds says next to nothing: a third one where it costs least.
    Grid(methods=("dense", "static", "barter"), densities=(0.3,), seeds=(2,)),
)
"""What `bench run` does without arguments: three to four minutes of two CPU cores."""


@dataclass(frozen=True)
class Key:
    """One key of a study file, which is also an option of the command line."""

    field: str
    """Field of StudySpec, of Grid, or of its Execution."""
    read: Callable[[str, Any], Any]
    """From the key's name and TOML value, or the option's text."""


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise UsageError(f"{name} takes a whole number, not {value!r}")


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)
    except ValueError:
        pass
    raise UsageError(f"{name} takes a number, not {value!r}")


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name} takes true or false, not {value!r}")


def _word(name: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise UsageError(f"{name} takes a name, not {value!r}")


def _recompute(name: str, value: Any) -> str:
    """Names with commas, or a list of them, in the order in which they are always written."""
    names = _many(_word)(name, value)
    return recomputed(names) if set(names) <= set(RECOMPUTABLE) else ",".join(names)


def _data(name: str, value: Any) -> str:
    if value not in (REAL, SYNTHETIC):
        raise UsageError(f"{name} is {value!r}: {REAL} or {SYNTHETIC} it must be")
    return value


def _contender(name: str, value: Any) -> str:
    """A contender's label as it is always written: equal contenders are one."""
    return str(parse_label(_word(name, value)))


def _many(read: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    """One value, a list, or text with commas; a repeated value counts once."""

    def read_all(name: str, value: Any) -> tuple[Any, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        parts = parts if isinstance(parts, list) else [parts]
        return tuple(dict.fromkeys(read(name, part) for part in parts))

    return read_all


def _options(name: str, value: Any) -> Options:
    if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
        raise UsageError(f"{name} takes one table per method, e.g. [options.barter]")
    return tuple(sorted((method, tuple(sorted(table.items()))) for method, table in value.items()))


EXECUTION_KEYS = {
    "tf32": Key("tf32", _switch),
    "autocast": Key("autocast", _word),
    "compile": Key("compile", _switch),
    "attention": Key("attention", _word),
    "optimizer": Key("optimizer", _word),
    "threads": Key("threads", _integer),
    "recompute": Key("recompute", _recompute),
    "cuda_graphs": Key("cuda_graphs", _switch),
}

GRID_KEYS = EXECUTION_KEYS | {
    "methods": Key("methods", _many(_contender)),
    "density": Key("densities", _many(_number)),
    "seeds": Key("seeds", _many(_integer)),
    "learning_rate": Key("learning_rate", _number),
}
"""Keys of a grid: at the top of a study file, or in its [[grid]] tables."""

KEYS = GRID_KEYS | {
    "name": Key("name", _word),
    "workload": Key("workloads", _many(_word)),
    "mode": Key("mode", _word),
    "data": Key("data", _data),
    "steps": Key("steps", _integer),
    "batch_size": Key("batch_size", _integer),
    "device": Key("device", _word),
    "gpu": Key("gpu", _word),
    "init_from": Key("init_from", _word),
    "options": Key("options", _options),
}
"""Keys of a study file, [[grid]] apart."""


def study_spec(
    file: Path | None, given: Mapping[str, Any], default: Grid = DEFAULT, to_run: bool = True
) -> StudySpec:
    """The study that was asked for, checked as far as that needs no device.

    Args:
        file: a study file in TOML, with the keys of `KEYS` and tables [[grid]].
        given: options of the command line by the same keys; None where not given. One of a
            grid's replaces that key in every grid.
        default: what neither says of a grid.
        to_run: whether it shall be run, and not only planned: only runs have a demo.

    Raises:
        UsageError: unreadable file, unknown key, or a value that no run could be made of.
    """
    content = _read_toml(file) if file else {}
    tables = content.pop("grid", [{}])
    values = _read(content, KEYS, f"{file}")
    over: dict[str, Any] = {}
    for key, value in given.items():
        if value is not None:
            option = "--study" if key == "name" else f"--{key.replace('_', '-')}"
            over[KEYS[key].field] = KEYS[key].read(option, value)
    top = values | over
    is_demo = to_run and tables == [{}] and not top.keys() - {"name", "device"}
    axes = {key.field for key in GRID_KEYS.values()}
    common = {"name": "", "workloads": WORKLOADS}
    common |= {field: value for field, value in top.items() if field not in axes}
    shared = {field: value for field, value in values.items() if field in axes}
    replaced = {field: value for field, value in over.items() if field in axes}
    grids = [_grid(default, shared | grid | replaced) for grid in _grids(file, tables)]
    spec = StudySpec(**common, grids=DEMO if is_demo else tuple(dict.fromkeys(grids)))
    spec = replace(spec, data=data_needed(spec, to_run))
    spec.check(to_run)
    if not spec.name:
        spec = replace(spec, name="demo" if is_demo else _default_name(file, spec))
    return spec


def _grid(default: Grid, values: Mapping[str, Any]) -> Grid:
    execution = {f.name: values[f.name] for f in fields(Execution) if f.name in values}
    axes = {field: value for field, value in values.items() if field not in execution}
    return replace(default, **axes, execution=replace(default.execution, **execution))


def data_needed(spec: StudySpec, to_run: bool) -> str | None:
    """What is not said follows from the rest: a full schedule is training and needs its data set,
    a few steps or mode `time` are measurement and need none."""
    workloads = [get_workload(name) for name in spec.workloads]
    for workload in workloads:
        if spec.data is not None and workload.dataset is None:
            raise UsageError(f"--data {spec.data}: {workload.name} has its own images built in")
    if spec.data is None and to_run and spec.mode == TRAIN and spec.steps is None:
        return REAL if any(workload.dataset for workload in workloads) else None
    return REAL if spec.data == REAL else None


def _grids(file: Path | None, tables: Any) -> list[dict[str, Any]]:
    """What each [[grid]] table says, by field of Grid."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{file}: grid takes tables, each under its own line [[grid]]")
    several = len(tables) > 1
    return [
        _read(table, GRID_KEYS, f"{file}: grid {number}" if several else f"{file}: grid")
        for number, table in enumerate(tables, 1)
    ]


def _read(table: Mapping[str, Any], keys: Mapping[str, Key], where: str) -> dict[str, Any]:
    """The values of a TOML table by their fields; UsageError for a key that is not in `keys`."""
    for key in table:
        if key not in keys:
            known = [*keys, "grid"] if keys is KEYS else keys
            raise UsageError(f"{where}: unknown key {key!r}; {nearest(key, known)}")
    return {keys[key].field: keys[key].read(f"{where}: {key}", table[key]) for key in table}


_LATER = {"data", "datasets", "init_from", "continue_from", "rates"}
"""Settings that came later, and say nothing where they are empty."""


def _default_name(file: Path | None, spec: StudySpec) -> str:
    """The same for the same shared settings, so that a repeated call finds its finished runs."""
    if file:
        return file.stem
    shared = {k: v for k, v in spec.shared().items() if v or k not in _LATER}
    digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()
    return f"{spec.workloads[0]}-{digest[:6]}"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read study file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"study file {file} is not valid TOML: {error}") from error
