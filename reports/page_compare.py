"""The comparison of two studies: tables to the terminal, and as files into a folder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from bench.files import write_json_atomically, write_text_atomically
from reports import tables_compare
from reports.compare_match import AFTER, BEFORE
from reports.compare_times import Comparison
from reports.page import overview
from reports.table import Table
from reports.terminal import show
from reports.writers import csv_text, flat, markdown

TABLES = (
    tables_compare.time_changes,
    tables_compare.count_changes,
    tables_compare.accuracy_changes,
)


@dataclass(frozen=True)
class ComparePage:
    """What a comparison says."""

    head: Sequence[str]
    tables: Sequence[Table]


def make_page(comparison: Comparison) -> ComparePage:
    """All tables that have a section; that of what was not compared always stands."""
    sides = ((BEFORE, comparison.before), (AFTER, comparison.after))
    head = [
        f"{side.capitalize()} ({study.records.store.folder}): {line}"
        for side, study in sides
        for line in overview(study.records)
    ]
    made = [make(comparison) for make in TABLES]
    kept = [table for table in made if table.sections]
    return ComparePage(head, [*kept, tables_compare.not_compared(comparison)])


def print_page(page: ComparePage, console: Console) -> None:
    for line in page.head:
        console.print(Text(line))
    said: set[str] = set()
    for table in page.tables:
        show(table, console, said)


def write_page(page: ComparePage, folder: Path) -> list[Path]:
    """`compare.md`, `compare.json` and a CSV file per table.

    Raises:
        UsageError: a file cannot be written.
    """
    heads = "\n".join(f"* {line}" for line in page.head)
    text = "\n\n".join(["# Two studies compared", heads, *map(_trimmed, page.tables)])
    files = {"compare.md": f"{text}\n"}
    files |= {f"{table.key}.csv": csv_text(table) for table in page.tables}
    for name, content in files.items():
        write_text_atomically(folder / name, content)
    data = {"head": list(page.head), "tables": {t.key: _plain(t) for t in page.tables}}
    write_json_atomically(folder / "compare.json", data)
    return [folder / name for name in (*files, "compare.json")]


def _trimmed(table: Table) -> str:
    return markdown(table).rstrip()


def _plain(table: Table) -> dict[str, Any]:
    """The CSV file's rows by their heads, and everything that is said about them."""
    heads, lines = flat(table)
    rows = [dict(zip(heads, map(_json_number, cells), strict=True)) for cells in lines]
    said = [note for section in table.sections for note in (section.caption, *section.notes)]
    notes = dict.fromkeys(text for text in (*said, *table.notes) if text)
    return {"title": table.title, "rows": rows, "notes": list(notes)}


def _json_number(value: Any) -> Any:
    """JSON knows no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
