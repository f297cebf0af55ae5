"""What a person sees while a gate measures: a bar on a terminal, plain lines elsewhere."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.wording import count


class Watch(Protocol):
    """Told what a gate does."""

    def said(self, text: str) -> None: ...
    def expect(self, launches: int, blocks: int) -> None:
        """So many more launches will come, of so many blocks each."""
        ...

    def block_done(self) -> None: ...


class ConsoleWatch:
    """Draws between blocks only: never while a contender is timed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            TextColumn("measuring"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f} of {task.total:.0f} blocks"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("", total=0)
        self._expected, self._per_launch, self._done = 0, 1, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def said(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def expect(self, launches: int, blocks: int) -> None:
        self.said(f"measuring {count(launches, 'launch', 'launches')} of {count(blocks, 'block')}")
        self._expected += launches
        self._per_launch = blocks
        self._bars.start()
        self._bars.update(self._task, total=self._expected * blocks, refresh=True)

    def block_done(self) -> None:
        self._done += 1
        self._bars.update(self._task, completed=self._done, refresh=True)
        if not self._console.is_terminal and self._done % self._per_launch == 0:
            self.said(f"launch {self._done // self._per_launch} of {self._expected} done")
