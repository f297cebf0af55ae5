"""Where a StudySpec comes from: command line over study file over demo, and what the results
folder already holds under its name.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.files import read_json, write_json_atomically
from bench.spec import Options, StudySpec, nearest
from bench.store import StudyStore

DEMO: dict[str, Any] = {
    "workloads": ("vit-digits",),
    "methods": ("dense", "static", "barter"),
    "densities": (0.3,),
    "seeds": (0, 1, 2),
}
"""What `bench run` does without arguments."""


@dataclass(frozen=True)
class Key:
    """One key of a study file, which is also an option of the command line."""

    field: str
    """Field of StudySpec."""
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


def _word(name: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise UsageError(f"{name} takes a name, not {value!r}")


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


KEYS = {
    "name": Key("name", _word),
    "workload": Key("workloads", _many(_word)),
    "methods": Key("methods", _many(_word)),
    "density": Key("densities", _many(_number)),
    "seeds": Key("seeds", _many(_integer)),
    "steps": Key("steps", _integer),
    "batch_size": Key("batch_size", _integer),
    "device": Key("device", _word),
    "gpu": Key("gpu", _word),
    "options": Key("options", _options),
}
"""Keys of a study file."""


def study_spec(
    file: Path | None,
    given: Mapping[str, Any],
    defaults: Mapping[str, Any] = DEMO,
    to_run: bool = True,
) -> StudySpec:
    """The study that was asked for, checked as far as that needs no device.

    Args:
        file: a study file in TOML, with the keys of `KEYS`.
        given: options of the command line by the same keys; None where not given.
        defaults: fields of StudySpec for what neither says.
        to_run: whether it shall be run, and not only planned.

    Raises:
        UsageError: unreadable file, unknown key, or a value that no run could be made of.
    """
    values: dict[str, Any] = {}
    for key, value in (_read_toml(file) if file else {}).items():
        if key not in KEYS:
            raise UsageError(f"{file}: unknown key {key!r}; {nearest(key, KEYS)}")
        values[KEYS[key].field] = KEYS[key].read(f"{file}: {key}", value)
    for key, value in given.items():
        if value is not None:
            option = "--study" if key == "name" else f"--{key.replace('_', '-')}"
            values[KEYS[key].field] = KEYS[key].read(option, value)
    is_demo = not values.keys() - {"name", "device"}
    spec = StudySpec(**{"name": "", **defaults, **values})
    spec.check(to_run)
    if not spec.name:
        spec = replace(spec, name="demo" if is_demo else _default_name(file, spec))
    return spec


def _default_name(file: Path | None, spec: StudySpec) -> str:
    """The same for the same shared settings, so that a repeated call finds its finished runs."""
    if file:
        return file.stem
    digest = hashlib.sha256(json.dumps(spec.shared(), sort_keys=True).encode()).hexdigest()
    return f"{spec.workloads[0]}-{digest[:6]}"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read study file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"study file {file} is not valid TOML: {error}") from error


def claim(store: StudyStore, spec: StudySpec) -> None:
    """Note in the results folder what the study is.

    Raises:
        UsageError: the folder cannot be written, or holds a different study of that name.
    """
    whole = together(store, spec)
    store.check_writable()
    write_json_atomically(store.study_file, json.loads(whole.to_json()))


def together(store: StudyStore, spec: StudySpec) -> StudySpec:
    """The study that the results folder holds after this request: methods (with their options),
    densities and seeds may be added under one name, everything else must agree.

    Raises:
        UsageError: the folder holds a different study of that name.
    """
    if not store.study_file.exists():
        return spec
    there = read_json(store.study_file)
    known = {f.name for f in fields(StudySpec)}
    if not isinstance(there, dict) or there.keys() != known:
        raise UsageError(f"{store.study_file} is not a study of this program: choose another name")
    for key, value in spec.shared().items():
        _refuse_difference(store, key, there[key], value)
    mine, theirs = dict(spec.options), {name: dict(table) for name, table in there["options"]}
    for method in set(spec.methods) & set(there["methods"]):
        old, new = theirs.get(method, {}), dict(mine.get(method, ()))
        for key in sorted(old.keys() | new.keys()):
            _refuse_difference(store, f"options.{method}.{key}", old.get(key), new.get(key))
    options = theirs | {name: dict(table) for name, table in mine.items()}
    return replace(
        spec,
        methods=(*dict.fromkeys([*there["methods"], *spec.methods]),),
        densities=(*dict.fromkeys([*there["densities"], *spec.densities]),),
        seeds=(*dict.fromkeys([*there["seeds"], *spec.seeds]),),
        options=_options("options", options),
    )


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
