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
        total = self._bars.tasks[0].total or 0
        self._bars.start()
        self._bars.update(self._task, total=total + launches * blocks, refresh=True)

    def block_done(self) -> None:
        self._bars.update(self._task, advance=1, refresh=True)
