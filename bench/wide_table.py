"""Prints a table wider than the terminal rather than cut: a number without its end is a wrong
number.
"""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 500
NARROWEST = 80


def print_whole(table: Table, console: Console) -> None:
    wanted = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.width = max(console.width, NARROWEST, wanted)
    console.print(table)
