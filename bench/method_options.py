"""Hyperparameters of a method from what a user gave: known names, right types. No torch."""

from collections.abc import Collection, Iterable
from dataclasses import fields
from difflib import get_close_matches
from math import isfinite
from typing import Any

from bench.errors import UsageError
from bench.method_registry import MethodInfo
from bench.workloads.registry import Workload
from methods.config import Config

Options = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
"""Per method, its hyperparameters that differ from the defaults; sorted, so order has no effect."""

_KINDS = {int: "an int", float: "a float", bool: "a bool (true or false)", str: "a str"}
_BOOLS = {"true": True, "false": False}


def method_config(
    method: MethodInfo, options: Iterable[tuple[str, Any]], workload: Workload | None
) -> Config:
    """The method's hyperparameters: options given, the workload's transfer multiplier, defaults.

    Raises:
        UsageError: an option that the method does not have, or a value that it refuses.
    """
    values: dict[str, Any] = {}
    if method.transfers and workload is not None:
        values["transfer_multiplier"] = float(workload.transfer_multiplier)
    for key, value in options:
        values[key] = _typed(method.name, key, value, option_type(method, key))
    try:
        return method.config(**values)
    except ValueError as error:
        raise UsageError(f"{method.name}: {error}") from error


def changed_options(
    method: MethodInfo, config: Config, workload: Workload
) -> tuple[tuple[str, Any], ...]:
    """The hyperparameters in which `config` differs from what the method has by default on the
    workload, by name."""
    usual = method_config(method, (), workload)
    names = sorted(f.name for f in fields(config))
    values = ((name, getattr(config, name)) for name in names)
    return tuple((name, value) for name, value in values if value != getattr(usual, name))


def option_type(method: MethodInfo, key: str) -> Any:
    """The type of a method's option; UsageError with the nearest name if it has none such."""
    known = {f.name: f.type for f in fields(method.config)}
    if key not in known:
        raise UsageError(f"{method.name} has no option {key!r}; {nearest(key, known)}")
    return known[key]


def parse_option(method: MethodInfo, key: str, text: str) -> Any:
    """An option's value from text, by the type of its field.

    Raises:
        UsageError: the method has no such option, or the text is no value of its type.
    """
    wanted = option_type(method, key)
    try:
        value = _BOOLS[text.lower()] if wanted is bool else wanted(text)
    except (ValueError, KeyError):
        value = None
    if value is None or (wanted is float and not isfinite(value)):
        raise UsageError(f"{method.name}: option {key} takes {_KINDS[wanted]}, not {text!r}")
    return value


def option_text(value: Any) -> str:
    """The one way in which a value is written: 2 for 2.0, true for True."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _typed(method: str, key: str, value: Any, wanted: Any) -> Any:
    if wanted is float and type(value) in (int, float):
        return float(value)
    if type(value) is not wanted:
        raise UsageError(f"{method}: option {key} takes {_KINDS[wanted]}, not {value!r}")
    return value


def nearest(name: str, known: Collection[str]) -> str:
    """What the user may have meant, for the end of an error line."""
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
