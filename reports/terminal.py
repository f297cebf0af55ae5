"""Tables on a terminal of any width: no number is ever cut off."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from reports.table import Column, Row, Section, Table
from reports.writers import cut

MOST_COLUMNS = 14
"""A wider table (a matrix of many contenders) is left to the files."""
NARROWEST_TEXT = 24
"""A longer word of wrapped text is folded where the terminal is narrow: `[transfer_multiplier=6]`
is not."""
GAP, EDGES = 2, 2
"""Characters between two columns of the box that is used, and at its two edges."""


class Layout(NamedTuple):
    before_interval: str  # an interval stands beside its value or beneath it
    head: int  # a longer title is wrapped to this, or to its longest word


ROOMY, TIGHT = Layout(" [", 10), Layout("\n[", 0)
LAYOUTS = (ROOMY, Layout("\n[", 10), TIGHT)


def show_all(head: Sequence[str], tables: Sequence[Table], console: Console) -> None:
    """Lines and tables, each note once; tables that are not for the terminal are left out."""
    said: set[str] = set()
    for line in head:
        console.print(Text(line))
    for table in tables:
        if table.on_terminal:
            show(table, console, said)


def show(table: Table, console: Console, said: set[str]) -> None:
    """Print a table, leaving out notes already in `said`, which it extends.

    Text is never read as markup: a reason may hold brackets.
    """
    console.print(Text(f"\n{table.title}", style="bold"))
    for section in table.sections:
        if section.caption:
            console.print(Text(section.caption, style="italic"))
        if len(section.columns) > MOST_COLUMNS:
            console.print(Text(f"{len(section.columns)} columns: see report.md"))
        elif section.rows:
            for columns in _fitting(section, console):
                console.print(_rich(section, columns, console))
        for note in section.notes:
            if note not in said:
                console.print(Text(f"* {note}"))
        said.update(section.notes)
    for note in table.notes:
        if note not in said:
            console.print(Text(note, style="dim"))
    said.update(table.notes)


def _fitting(section: Section, console: Console) -> list[Sequence[Column]]:
    """Fewest cuts of the table that fit the console's width."""
    for most in range(len(section.columns), section.heads, -1):
        cuts = cut(section, most)
        if all(_width(section, columns, TIGHT) <= console.width for columns in cuts):
            return cuts
    return cut(section, section.heads + 1)


def _rich(section: Section, columns: Sequence[Column], console: Console) -> RichTable:
    """The roomiest layout that fits."""
    fitting = (x for x in LAYOUTS if _width(section, columns, x) <= console.width)
    layout = next(fitting, TIGHT)
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        width = _column_width(section, column, layout)
        table.add_column(
            Text("\n".join(textwrap.wrap(column.title, width))),
            justify="left" if column.text else "right",
            no_wrap=not column.text,
            overflow="fold",
            vertical="top",
            min_width=width,
        )
    for row in section.rows:
        table.add_row(*(Text(_cell(column, row, layout)) for column in columns))
    return table


def _cell(column: Column, row: Row, layout: Layout) -> str:
    text = column.cell(row)
    return text.replace(" [", layout.before_interval) if column.interval else text


def _width(section: Section, columns: Sequence[Column], layout: Layout) -> int:
    """Characters that the table needs, wrapped text at its narrowest."""
    gaps = GAP * (len(columns) - 1) + EDGES
    return sum(_column_width(section, column, layout) for column in columns) + gaps


def _column_width(section: Section, column: Column, layout: Layout) -> int:
    longest_word = max(len(word) for word in column.title.split())
    head = max(longest_word, min(len(column.title), layout.head))
    cells = [_cell(column, row, layout) for row in section.rows]
    if column.text:
        longest = max((len(word) for cell in cells for word in cell.split()), default=0)
        return max(head, min(longest, NARROWEST_TEXT))
    return max([head, *(len(line) for cell in cells for line in cell.split("\n"))])
