"""What a person sees while contenders are timed: live bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence

from rich.console import Console

from bench.display import make_bars
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.timing.study import Effort, Watch
from bench.wording import count


def make_watch(console: Console, effort: Effort) -> Watch:
    """Bars where they can be drawn."""
    return LiveWatch(console, effort) if console.is_terminal else PlainWatch(console, effort)


def _left_out(spec: RunSpec, row: Row) -> str:
    return f"{spec.title}: {row['status']}: {row['reason']}"


class PlainWatch:
    """A line for everything that takes a while."""

    def __init__(self, console: Console, effort: Effort) -> None:
        self._console, self._effort = console, effort

    def begin(self, specs: Sequence[RunSpec]) -> None:
        pass

    def scouting(self, spec: RunSpec) -> None:
        self.said(f"counting the costs of {spec.title}")

    def launching(self, number: int, blocks: int) -> None:
        self.said(f"launch {number + 1}: {count(blocks, 'block')}")

    def block_done(self, spec: RunSpec) -> None:
        pass

    def measured(self, width: float | None, launches: int) -> None:
        if width is not None and launches >= self._effort.launches:
            self.said(f"widest interval: +-{width:.1%} after {launches} launches")

    def left_out(self, spec: RunSpec, row: Row) -> None:
        self.said(_left_out(spec, row))

    def said(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        pass


class LiveWatch:
    """Two bars: the launches that are asked for, and the blocks of the one that goes on.

    Drawn between blocks, by whoever calls: a thread that draws would disturb what is timed.
    """

    def __init__(self, console: Console, effort: Effort) -> None:
        self._effort = effort
        self._bars = make_bars(console, "{task.fields[unit]}", refresh_itself=False)
        self._launches = self._bars.add_task("launches", unit="", state="", total=effort.launches)
        self._blocks = self._bars.add_task("", unit="", state="", total=None)
        self._until_s, self._scouted = 0.0, 0
        self._width: float | None = None

    def begin(self, specs: Sequence[RunSpec]) -> None:
        self._until_s = time.monotonic() + self._effort.time_limit_s
        self._width = None
        self._bars.reset(self._launches, description=f"{specs[0].workload}, seed {specs[0].seed}")
        self._bars.update(self._launches, unit="launches")
        self._bars.reset(self._blocks, total=len(specs), description="counting costs")
        self._bars.update(self._blocks, unit="contenders", state="")
        self._scouted = 0
        self._bars.start()
        self._draw()

    def scouting(self, spec: RunSpec) -> None:
        self._bars.update(self._blocks, completed=self._scouted, state=spec.title)
        self._scouted += 1
        self._draw()

    def launching(self, number: int, blocks: int) -> None:
        asked = max(self._effort.launches, number + 1)
        self._bars.update(self._launches, completed=number, total=asked)
        self._bars.reset(self._blocks, total=blocks, description=f"launch {number + 1}")
        self._bars.update(self._blocks, unit="blocks", state="starting")
        self._draw()

    def block_done(self, spec: RunSpec) -> None:
        self._bars.update(self._blocks, advance=1, state=spec.title)
        self._draw()

    def measured(self, width: float | None, launches: int) -> None:
        self._width = width
        self._bars.update(self._launches, completed=launches)
        self._draw()

    def left_out(self, spec: RunSpec, row: Row) -> None:
        self.said(_left_out(spec, row))

    def said(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        self._bars.stop()

    def _draw(self) -> None:
        minutes = max(0.0, self._until_s - time.monotonic()) / 60
        # Short enough for 80 columns, bars included.
        known = "" if self._width is None else f"+-{self._width:.1%}, "
        state = f"{known}wanted +-{100 * self._effort.target:g}%; {minutes:.1f} min"
        self._bars.update(self._launches, state=state)
        self._bars.refresh()
