"""What the untimed repetition counts, for every method: documented waits, and the update itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from baselines.s2vite_config import S2viteConfig
from bench import accounting
from bench.accounting import StepAccount, account_step
from bench.measure.operations import OperationCounter
from bench.method_registry import METHODS
from bench.records import step_rows
from bench.session import Session, build_session
from bench.study_file import study_spec
from bench.train import Training
from methods.base import TopologyUpdate

STEPS = 30
CPU = torch.device("cpu")


def session(method: str, **changes: Any) -> Session:
    given = {"methods": method, "steps": STEPS, "batch_size": 8, "seeds": "0"}
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(replace(spec, **changes), CPU)


class Settled:
    """A run to its end, with what each accounted step did to the topology."""

    def __init__(self, of: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accounts: dict[int, StepAccount] = {}
        self.updates: dict[int, TopologyUpdate] = {}
        original: Callable[..., TopologyUpdate] = of.method.update_topology

        def update_topology(step: int) -> TopologyUpdate:
            self.updates[step] = original(step)
            return self.updates[step]

        def account(session: Session, step: int) -> StepAccount:
            self.accounts[step] = account_step(session, step)
            return self.accounts[step]

        monkeypatch.setattr(of.method, "update_topology", update_topology)
        monkeypatch.setattr(accounting, "account_step", account)
        self.training = Training(of, lambda progress: None)
        self.training.run()
        self.flags = {step: of.method.flags(step) for step in range(1, STEPS + 1)}


def expected_waits(method: str, update: TopologyUpdate) -> int:
    if method.startswith("barter"):
        return len(update.events)
    return int(bool(update) and method.startswith(("snfs", "s2vite")))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_waits_as_documented(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settled = Settled(session(method), monkeypatch)
    recorded: dict[int, list[tuple[Any, ...]]] = {}
    for row in settled.training.updates:
        recorded.setdefault(row["step"], []).append((row["unit_type"], row["executed"]))
    for step, account in settled.accounts.items():
        update = settled.updates[step]
        # The repetition does what the step did then: no figure of an update lacks the update.
        assert [(e.unit_type, e.executed) for e in update.events] == recorded.get(step, [])
        assert bool(update) == ("update" in settled.flags[step])
        assert account.host_synchronisations == expected_waits(method, update)
        assert sum(account.peak_parts.values()) == account.peak_allocated_bytes
    operators = {
        is_update: [
            a.operators
            for s, a in settled.accounts.items()
            if bool(settled.updates[s]) is is_update
        ]
        for is_update in (False, True)
    }
    if settled.training.session.method.is_dynamic:
        assert min(operators[True]) > max(operators[False])
    for row in step_rows(settled.training):
        waits = len(recorded.get(row["step"], ())) if method.startswith("barter") else None
        assert waits in (None, row["host_synchronisations"])
        assert row["dispatched_operators"] in operators["update" in row["flags"]]


def test_official_s2vite_reads_heads_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    of = session("s2vite", config=S2viteConfig(overhead="official"))
    settled = Settled(of, monkeypatch)
    shape = of.method.context.shape
    heads, blocks = shape.heads, shape.layers
    for step, account in settled.accounts.items():
        updated = "update" in settled.flags[step]
        assert account.host_synchronisations == heads * blocks + (19 * blocks + 1) * updated
    assert {bool(update) for update in settled.updates.values()} == {False, True}


@pytest.mark.parametrize("method", ["dense", "barter", "rigl", "s2vite"])
def test_counters_do_not_disturb_each_other(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> tuple[Session, int]:
        of = session(method)
        for step in range(1, STEPS + 1):
            if "update" in of.method.flags(step) or (method == "dense" and step == 3):
                return of, step
            of.train_step(step, of.data.batch(step), _NoClock())
        raise AssertionError("no update")

    of, step = trained()
    batch = of.data.batch(step)
    with OperationCounter(CPU) as alone:
        of.train_step(step, batch, _NoClock())
    of, step = trained()
    account = account_step(of, step)
    assert account.operators == alone.operators
    assert account.host_synchronisations == alone.host_synchronisations
    monkeypatch.setattr(accounting, "OperationCounter", _NoCounter)
    of, step = trained()
    without = account_step(of, step)
    assert without.macs == account.macs
    assert without.peak_allocated_bytes == account.peak_allocated_bytes


class _NoClock:
    def start_step(self) -> None:
        pass

    def mark(self, name: str) -> None:
        pass


class _NoCounter:
    operators = host_synchronisations = 0

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> "_NoCounter":
        return self

    def __exit__(self, *_: Any) -> None:
        pass
