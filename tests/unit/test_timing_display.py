"""What is shown while contenders are timed: bars on a terminal, lines elsewhere."""

import io
import re
import threading
from typing import Any

import pytest
from rich.console import Console

from bench.study_file import study_spec
from bench.timing import display
from bench.timing.display import LiveWatch, PlainWatch, make_watch
from bench.timing.study import Effort, Watch

EFFORT = Effort(launches=2, target=0.02, time_limit_s=600.0)
SPECS = study_spec(None, {"methods": "dense,static", "density": "0.5", "seeds": "0"}).runs()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made: Any = Clock()
    monkeypatch.setattr(display, "time", made)
    return made


def console(terminal: bool, width: int = 160) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, force_terminal=terminal), text


def last_drawn(text: io.StringIO) -> str:
    """The two bars as they stand, without colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    return " ".join("\n".join(re.split(r"[\r\n]+", plain.strip())[-2:]).split())


def study(watch: Watch) -> None:
    """A study of two launches, the second of which is narrow enough."""
    watch.begin(SPECS)
    for spec in SPECS:
        watch.scouting(spec)
    for number, width in enumerate((None, 0.013)):
        watch.launching(number, 3)
        for spec in (SPECS[1], *SPECS):
            watch.block_done(spec)
        watch.measured(width, number + 1)
    watch.end()


def test_bars_are_for_terminals() -> None:
    assert isinstance(make_watch(console(True)[0], EFFORT), LiveWatch)
    assert isinstance(make_watch(console(False)[0], EFFORT), PlainWatch)


def test_plain_lines() -> None:
    shown, text = console(False)
    watch = make_watch(shown, EFFORT)
    study(watch)
    watch.left_out(SPECS[1], {"status": "skipped", "reason": "no [topology]"})
    assert text.getvalue().splitlines() == [
        f"counting the costs of {SPECS[0].title}",
        f"counting the costs of {SPECS[1].title}",
        "launch 1: 3 blocks",
        "launch 2: 3 blocks",
        "widest interval: +-1.3% after 2 launches",
        f"{SPECS[1].title}: skipped: no [topology]",
    ]


def test_plain_lines_say_no_width_that_cannot_end_the_study() -> None:
    shown, text = console(False)
    watch = PlainWatch(shown, EFFORT)
    watch.measured(0.5, 1)
    watch.measured(None, 2)
    assert text.getvalue() == ""


def test_bars_count_contenders_blocks_and_launches(clock: Clock) -> None:
    shown, text = console(True)
    watch = LiveWatch(shown, EFFORT)
    watch.begin(SPECS)
    watch.scouting(SPECS[0])
    watch.scouting(SPECS[1])
    assert "0/2 launches" in last_drawn(text)
    assert "counting costs" in last_drawn(text)
    assert "1/2 contenders" in last_drawn(text)
    assert SPECS[1].title in last_drawn(text)
    watch.launching(0, 3)
    clock.now_s += 90
    watch.block_done(SPECS[0])
    drawn = last_drawn(text)
    assert "launch 1" in drawn
    assert "1/3 blocks" in drawn
    assert " wanted +-2%; 8.5 min" in drawn
    watch.measured(0.031, 1)
    watch.launching(1, 3)
    assert "1/2 launches" in last_drawn(text)
    assert "0/3 blocks" in last_drawn(text)
    assert "+-3.1%, wanted +-2%" in last_drawn(text)
    watch.launching(4, 3)  # more than were asked for, as intervals are wide
    assert "4/5 launches" in last_drawn(text)
    clock.now_s += 1e6
    watch.measured(0.02, 5)
    assert "; 0.0 min" in last_drawn(text)
    watch.end()


def test_nothing_is_cut_at_80_columns(clock: Clock) -> None:
    shown, text = console(terminal=True, width=80)
    watch = make_watch(shown, EFFORT)
    study(watch)
    drawn = last_drawn(text)
    assert "\u2026" not in drawn
    for said in (
        "2/2 launches",
        "+-1.3%, wanted +-2%; 10.0 min",
        "3/3 blocks",
        "static at 0.5, seed 0",
    ):
        assert said in drawn


def test_another_setting_begins_anew(clock: Clock) -> None:
    shown, text = console(True)
    watch = LiveWatch(shown, EFFORT)
    study(watch)
    clock.now_s += 300
    watch.begin(SPECS)
    drawn = last_drawn(text)
    for said in ("0/2 launches", "0/2 contenders", " wanted +-2%", "; 10.0 min"):
        assert said in drawn
    watch.end()


def test_no_thread_draws_while_a_block_is_timed() -> None:
    before = threading.active_count()
    watch = LiveWatch(console(True)[0], EFFORT)
    watch.begin(SPECS)
    watch.launching(0, 3)
    assert threading.active_count() == before
    watch.end()


def test_lines_stand_above_the_bars(clock: Clock) -> None:
    shown, text = console(True)
    watch = LiveWatch(shown, EFFORT)
    watch.begin(SPECS)
    watch.left_out(SPECS[1], {"status": "failed", "reason": "out of memory"})
    assert f"{SPECS[1].title}: failed: out of memory" in text.getvalue()
    assert "0/2 contenders" in last_drawn(text)
    watch.end()
