"""How much of the processor others used."""

import os
import time
from pathlib import Path

import pytest

from bench.measure.load import ForeignLoad

TICKS = os.sysconf("SC_CLK_TCK")


def write(stat: Path, user_s: float, idle_s: float = 0.0, steal_s: float = 0.0) -> None:
    ticks = [round(value * TICKS) for value in (user_s, 0, 0, idle_s, 0, 0, 0, steal_s)]
    stat.write_text(f"cpu  {' '.join(map(str, ticks))} 0 0\ncpu0 1 2 3\n")


def test_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    clock = {"wall": 10.0, "own": 1.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["wall"])
    monkeypatch.setattr(time, "process_time", lambda: clock["own"])
    write(stat, user_s=100.0)
    load = ForeignLoad(stat)
    # Ten seconds: 14 s of processor time, 9 of them ours, 1 s stolen by the host.
    clock.update(wall=20.0, own=10.0)
    write(stat, user_s=114.0, idle_s=5.0, steal_s=1.0)
    assert load.cores() == pytest.approx((14 + 1 - 9) / 10)
    # Rounding of ticks must not make it negative.
    write(stat, user_s=108.9)
    assert load.cores() == 0.0


def test_unknown_elsewhere(tmp_path: Path) -> None:
    assert ForeignLoad(tmp_path / "none").cores() is None
    (tmp_path / "odd").write_text("nothing\n")
    assert ForeignLoad(tmp_path / "odd").cores() is None
