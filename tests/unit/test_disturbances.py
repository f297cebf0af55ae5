"""What torch did beside the steps: counters that grow, and those that were large before."""

import sys
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.measure.disturbances import Disturbances
from bench.reason_codes import ALLOCATOR_RETRY, AUTOTUNE, RECOMPILED

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
Counters = defaultdict[str, Counter[str]]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Counters:
    counters: Counters = defaultdict(Counter)
    counters["stats"]["unique_graphs"] = 5
    module = SimpleNamespace(counters=counters)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)  # type: ignore[arg-type]
    return counters


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    stats = {"num_alloc_retries": 2}
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: stats)
    return stats


def test_nothing_happened(compiler: Counters, memory: dict[str, int]) -> None:
    assert Disturbances(CUDA).codes() == []
    assert Disturbances(CPU).codes() == []


def test_what_grew_is_named(compiler: Counters, memory: dict[str, int]) -> None:
    disturbances = Disturbances(CUDA)
    memory["num_alloc_retries"] += 1
    assert disturbances.codes() == [ALLOCATOR_RETRY]
    compiler["stats"]["unique_graphs"] += 1
    compiler["inductor"]["select_algorithm_autotune"] += 1
    assert disturbances.codes() == [ALLOCATOR_RETRY, RECOMPILED, AUTOTUNE]
    disturbances.start()
    assert disturbances.codes() == [], "what warm-up steps did is no disturbance"


def test_a_cpu_has_no_allocator_to_run_short(compiler: Counters, memory: Any) -> None:
    disturbances = Disturbances(CPU)
    memory["num_alloc_retries"] += 1
    assert disturbances.codes() == []


def test_convolutions_that_are_tried_out(
    compiler: Counters, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert Disturbances(CUDA).codes() == [AUTOTUNE]
    assert Disturbances(CPU).codes() == []


def test_a_program_without_compiler_or_counters(
    memory: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    memory.clear()
    assert Disturbances(CUDA).codes() == []


def test_a_real_recompilation_is_seen() -> None:
    disturbances = Disturbances(CPU)
    double = torch.compile(lambda x: x * 2, backend="eager")
    double(torch.ones(3))
    assert disturbances.codes() == [RECOMPILED]
    disturbances.start()
    double(torch.ones(3))
    assert disturbances.codes() == []
