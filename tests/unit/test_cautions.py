"""Why a run that was timed in blocks deserves caution: from blocks that are made up."""

import sys
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.measure.disturbances import Disturbances
from bench.measure.observed import Observed
from bench.measure.telemetry import Reading
from bench.reason_codes import (
    ALLOCATOR_RETRY,
    CLOCK_BELOW_TOP,
    FEWEST_LAUNCHES,
    FOREIGN_CPU_LOAD,
    FOREIGN_GPU_PROCESS,
    GPU_PROCESSES_NOT_VISIBLE,
    RECOMPILED,
    THROTTLED,
    TOO_FEW_LAUNCHES,
)
from bench.timing.cautions import cautions, foreign_cpu_cores
from bench.timing.contender import serve
from bench.timing.messages import Answer, Request
from bench.timing.segments import Segment

Row = dict[str, Any]


def block(launch: int, cores: float | None = 0.0, segment: str = "ordinary", **other: Any) -> Row:
    return {
        "role": "contender",
        "launch": launch,
        "round": 0,
        "segment": segment,
        "foreign_cpu_cores": cores,
        "reason_codes": [],
        **other,
    }


QUIET = [block(launch) for launch in range(FEWEST_LAUNCHES)]


def test_a_quiet_machine_gives_no_code() -> None:
    assert cautions("cpu", QUIET, {}) == []
    assert cautions("cpu", QUIET[1:], {}) == [TOO_FEW_LAUNCHES]


def test_load_in_one_launch_does_not_vanish_among_the_others() -> None:
    loaded = [*QUIET[1:], block(0, cores=0.4)]
    assert foreign_cpu_cores(loaded) == pytest.approx(0.08)
    assert cautions("cpu", loaded, {}) == [FOREIGN_CPU_LOAD]


def test_a_block_counts_once_however_many_segments_it_has() -> None:
    rows = [block(0, 0.3), block(0, 0.9, round=1), block(0, 0.9, "update", round=1)]
    assert foreign_cpu_cores(rows) == pytest.approx(0.6)
    assert foreign_cpu_cores([block(0, None), block(0, 0.5, round=1)]) == 0.5
    assert foreign_cpu_cores([block(0, None)]) is None


def test_what_torch_did_in_a_block_is_named_once() -> None:
    doubtful = [row | {"reason_codes": [RECOMPILED, ALLOCATOR_RETRY]} for row in QUIET[:2]]
    assert cautions("cpu", [*doubtful, *QUIET[2:]], {}) == [RECOMPILED, ALLOCATOR_RETRY]
    old = [row | {"reason_codes": None} for row in QUIET]
    assert cautions("cpu", old, {}) == []


def seen(clock: float = 1500, reasons: int = 0, own: int = 2, foreign: int = 0) -> Observed:
    """One reading of a GPU."""
    values = {
        ("sm_clock", "MHz"): clock,
        ("throttle_reasons", "bitmask"): reasons,
        ("own_processes", "count"): own,
        ("foreign_processes", "count"): foreign,
    }
    return Observed.of(Reading(*key, value, "measured") for key, value in values.items())


def test_a_gpu_is_judged_by_what_was_seen_in_every_launch() -> None:
    fine = dict.fromkeys(range(FEWEST_LAUNCHES), seen())
    assert cautions("cuda", QUIET, fine) == []
    assert cautions("cuda", QUIET, fine | {1: seen(reasons=0x40)}) == [THROTTLED]
    assert cautions("cuda", QUIET, fine | {2: seen(foreign=1)}) == [FOREIGN_GPU_PROCESS]
    assert cautions("cuda", QUIET, fine | {3: seen(own=0)}) == [GPU_PROCESSES_NOT_VISIBLE]
    unknown = {launch: fine[launch] for launch in (0, 1)}
    assert cautions("cuda", QUIET, unknown) == [GPU_PROCESSES_NOT_VISIBLE]


def test_a_launch_whose_clock_stayed_below_that_of_another_is_named() -> None:
    slower = {launch: seen(clock=1400 if launch == 4 else 1500) for launch in range(5)}
    assert cautions("cuda", QUIET, slower) == [CLOCK_BELOW_TOP]


class Replayer:
    """Compiles in its second block; takes a step before every block."""

    segments = (Segment("ordinary", (1,), 1, 1.0),)

    def __init__(self, counters: dict[str, Counter[str]]) -> None:
        self.counters, self.blocks, self.steps_taken = counters, 0, 0

    def warm_up(self) -> None:
        pass

    def time(self, part: Segment, repetitions: int) -> list[float]:
        self.blocks += 1
        self.steps_taken += 1 + repetitions
        self.counters["stats"]["unique_graphs"] += self.blocks == 2
        return [1.0] * repetitions


class Pipe:
    """Asks three times, then is closed."""

    def __init__(self) -> None:
        self.asked, self.answers = 0, list[Answer]()

    def recv(self) -> Request:
        self.asked += 1
        if self.asked > 3:
            raise EOFError
        return Request({"ordinary": 2})

    def send(self, answer: Answer) -> None:
        self.answers.append(answer)


def test_an_answer_carries_the_codes_of_its_own_block(monkeypatch: pytest.MonkeyPatch) -> None:
    counters: dict[str, Counter[str]] = defaultdict(Counter)
    module: Any = SimpleNamespace(counters=counters)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    pipe: Any = Pipe()
    with pytest.raises(EOFError):
        serve(Replayer(counters), pipe, Disturbances(torch.device("cpu")))
    assert [answer.unscored_steps for answer in pipe.answers] == [{"ordinary": 1}] * 3
    assert [list(answer.reason_codes) for answer in pipe.answers] == [[], [RECOMPILED], []]
