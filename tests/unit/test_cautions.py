"""Why a run that was timed in blocks deserves caution: from blocks that are made up."""

import sys
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.measure.disturbances import Disturbances
from bench.reason_codes import (
    ALLOCATOR_RETRY,
    FEWEST_LAUNCHES,
    FOREIGN_CPU_LOAD,
    RECOMPILED,
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
    assert cautions("cpu", QUIET) == []
    assert cautions("cpu", QUIET[1:]) == [TOO_FEW_LAUNCHES]


def test_load_in_one_launch_does_not_vanish_among_the_others() -> None:
    loaded = [*QUIET[1:], block(0, cores=0.4)]
    assert foreign_cpu_cores(loaded) == pytest.approx(0.08)
    assert cautions("cpu", loaded) == [FOREIGN_CPU_LOAD]


def test_a_block_counts_once_however_many_segments_it_has() -> None:
    rows = [block(0, 0.3), block(0, 0.9, round=1), block(0, 0.9, "update", round=1)]
    assert foreign_cpu_cores(rows) == pytest.approx(0.6)
    assert foreign_cpu_cores([block(0, None), block(0, 0.5, round=1)]) == 0.5
    assert foreign_cpu_cores([block(0, None)]) is None


def test_what_torch_did_in_a_block_is_named_once() -> None:
    doubtful = [row | {"reason_codes": [RECOMPILED, ALLOCATOR_RETRY]} for row in QUIET[:2]]
    assert cautions("cpu", [*doubtful, *QUIET[2:]]) == [RECOMPILED, ALLOCATOR_RETRY]
    old = [row | {"reason_codes": None} for row in QUIET]
    assert cautions("cpu", old) == []


class Replayer:
    """Compiles in its second block."""

    segments = (Segment("ordinary", (1,), 1, 1.0),)

    def __init__(self, counters: dict[str, Counter[str]]) -> None:
        self.counters, self.blocks = counters, 0

    def warm_up(self) -> None:
        pass

    def time(self, part: Segment, repetitions: int) -> list[float]:
        self.blocks += 1
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
    assert [list(answer.reason_codes) for answer in pipe.answers] == [[], [RECOMPILED], []]
