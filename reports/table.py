"""What a table is: columns that know their format, sections that know their setting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.formats import NOTHING
from reports.statistics import Estimate

Row = Mapping[str, Any]
"""Column key -> value: Estimate, number, text (as it is, in any column), Shown, Marked or None."""


@dataclass(frozen=True)
class Shown:
    """Words for the reader in place of a number, and the number for CSV (None: there is none)."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Marked:
    """A value that says how it came about: a sign after it, and for CSV a word."""

    value: Any
    sign: str
    word: str


@dataclass(frozen=True)
class Column:
    """One column. `key` is its name in CSV, `title` (with the unit) its head elsewhere."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    interval: bool = False  # CSV: three columns, key, key_low, key_high
    text: bool = False  # aligned left, may be wrapped
    marked: bool = False  # CSV: one more column, key_is

    def cell(self, row: Row) -> str:
        value = row.get(self.key)
        if isinstance(value, Marked):
            return f"{self._text(value.value)} {value.sign}"
        return self._text(value)

    def _text(self, value: Any) -> str:
        if value is None:
            return NOTHING
        if isinstance(value, Shown):
            return value.text
        return value if isinstance(value, str) else self.show(value)

    def csv_heads(self) -> list[str]:
        ends = [f"{self.key}_low", f"{self.key}_high"] if self.interval else []
        return [self.key, *ends, *([f"{self.key}_is"] if self.marked else [])]

    def csv_cells(self, row: Row) -> list[Any]:
        """Full precision; empty for None."""
        value = row.get(self.key)
        word = None
        if isinstance(value, Marked):
            value, word = value.value, value.word
        return [*self._csv_numbers(value), *([word] if self.marked else [])]

    def _csv_numbers(self, value: Any) -> list[Any]:
        if isinstance(value, Shown):
            value = value.value
        if not self.interval:
            return [value.value if isinstance(value, Estimate) else value]
        if isinstance(value, Estimate):
            return [value.value, value.low, value.high]
        return [value, None, None]


@dataclass(frozen=True)
class Section:
    """The rows of one setting. `caption` says which; `setting` goes into every CSV row."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    setting: Mapping[str, Any] = field(default_factory=dict)
    heads: int = 1  # leading columns that are repeated when a wide table is cut


@dataclass(frozen=True)
class Table:
    """A table of one or more sections, with notes that hold for all of them.

    `csv` replaces the sections' rows in the CSV file (a matrix is better read as a list).
    """

    key: str  # file name without suffix
    title: str
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    csv: Section | None = None
    on_terminal: bool = True
