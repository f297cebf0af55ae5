"""Every registered method: a run that is stopped and resumed equals one that was never stopped."""

from pathlib import Path

import pytest

from bench.accounting import Accountant
from bench.method_registry import METHODS
from bench.workloads.registry import Workload
from tests.support.checkpointed import (
    STEPS,
    copy_at,
    differences,
    outcome,
    resumed,
    spec_of,
    uninterrupted,
)

EVERY = 6
"""Steps between two evaluations."""

OFFICIAL = ("rigl:overhead=official", "rigl:dense_gradient_steps=2", "s2vite:overhead=official")
"""Options that give a method more state than its default has."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "eval_interval", lambda self, batch: EVERY)
    # Counting takes longer than all else, and is the same for all methods: see test_resume.
    monkeypatch.setattr(Accountant, "settle", lambda self, session: {})


@pytest.mark.parametrize("name", [*METHODS, *OFFICIAL])
def test_resumed_equals_uninterrupted(name: str, tmp_path: Path) -> None:
    spec = spec_of(name)
    whole = uninterrupted(spec)
    expected = outcome(whole)
    changed = [step for step in (row["step"] for row in whole.updates) if 2 < step < STEPS]
    assert bool(changed) == whole.session.method.is_dynamic, "no update to be stopped around"
    update = changed[len(changed) // 2] if changed else STEPS // 2
    stops = sorted({1, update - 1, update, update + 1, EVERY - 1, EVERY, EVERY + 1, STEPS})
    saved = uninterrupted(spec, tmp_path / "run", stops)
    assert differences(outcome(saved), expected) == [], "checkpoints disturb the run"
    for stop in stops:
        again = resumed(spec, copy_at(tmp_path / "run", stop))
        assert again.steps_before == stop
        assert differences(outcome(again), expected) == [], f"stopped after step {stop}"
