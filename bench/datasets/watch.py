"""Progress of downloads and decoding: a bar on a terminal, a line every ten seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress as bars
from rich.console import Console

_PLAIN_INTERVAL_S = 10.0
_UNITS_OF_BYTES = (
    bars.DownloadColumn(binary_units=True),
    bars.TransferSpeedColumn(),
)


class ConsoleWatch:
    """Tells a person what takes long."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def said(self, text: str) -> None:
        """One line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def counting(self, what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A bar of `total` images or bytes; what it gives is told how many more are done."""
        if not self._console.is_terminal:
            yield self._plain(what, total, unit)
            return
        numbers = _UNITS_OF_BYTES if unit == "bytes" else (bars.MofNCompleteColumn(),)
        columns = (bars.TextColumn("{task.description}"), bars.BarColumn(bar_width=None))
        left = (bars.TextColumn("left"), bars.TimeRemainingColumn())
        with bars.Progress(*columns, *numbers, *left, console=self._console) as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)

    def _plain(self, what: str, total: int, unit: str) -> Callable[[int], None]:
        self.said(f"{what}: {total:,} {unit}")
        done, said_at = 0, time.monotonic()

        def advance(more: int) -> None:
            nonlocal done, said_at
            done += more
            if time.monotonic() - said_at >= _PLAIN_INTERVAL_S:
                said_at = time.monotonic()
                self.said(f"{what}: {done:,} of {total:,} {unit}")

        return advance
