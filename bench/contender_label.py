"""How a contender is named: `rigl`, or `rigl:interval=4:overhead=official`. So one method can stand
in a study twice, with different hyperparameters. No torch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bench.errors import UsageError
from bench.method_options import option_text, parse_option
from bench.method_registry import MethodInfo, get_method


@dataclass(frozen=True)
class ContenderLabel:
    """A method, and the hyperparameters that were given with its name."""

    method: MethodInfo
    options: tuple[tuple[str, Any], ...]
    """Sorted by name."""

    def __str__(self) -> str:
        return label_text(self.method.name, self.options)


def label_text(method: str, options: Iterable[tuple[str, Any]]) -> str:
    return ":".join([method, *(f"{key}={option_text(value)}" for key, value in options)])


def parse_label(text: str) -> ContenderLabel:
    """A contender from its label.

    Raises:
        UsageError: unknown method or option, a value of another type, an option without a value,
            or one that is given twice. Ranges are checked with the study's other options.
    """
    name, *parts = (part.strip() for part in text.split(":"))
    method = get_method(name)
    options: dict[str, Any] = {}
    for part in parts:
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not key or not value:
            raise UsageError(
                f"{text!r}: after the method come options such as :name=value, not {part!r}"
            )
        if key in options:
            raise UsageError(f"{text!r}: option {key} is given twice")
        options[key] = parse_option(method, key, value)
    return ContenderLabel(method, tuple(sorted(options.items())))
