"""Replaying segments of a schedule: exact restoration, and the right kinds of step timed."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from bench.method_registry import METHODS, get_method
from bench.session import Session, build_session
from bench.study_file import study_spec
from bench.timing import replay
from bench.timing.replay import REWARM_STEPS, Replayer
from bench.timing.scout import final_state, pack, scouted, unpack
from bench.timing.segments import FINAL, UPDATE
from bench.timing.snapshot import Snapshot

CPU = torch.device("cpu")


def session(method: str, steps: int = 60) -> Session:
    given = {"methods": method, "density": "0.5", "steps": steps, "batch_size": 4, "seeds": "0"}
    (spec,) = replace(study_spec(None, given), device="cpu").runs()
    return build_session(spec, CPU)


def state(of: Session) -> dict[str, torch.Tensor]:
    """Everything that a step reads, by name."""
    found = {f"model.{k}": v.clone() for k, v in of.model.state_dict().items()}
    for index, values in of.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{index}.{k}": torch.as_tensor(v).clone() for k, v in values.items()}
    found |= {f"masks.{k}": v.clone() for k, v in of.method.masks().items()}
    return found | {"random": torch.get_rng_state()}


def assert_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for key in left:
        assert torch.equal(left[key], right[key]), key


@pytest.mark.parametrize("name", METHODS)
def test_snapshot_brings_everything_back(name: str) -> None:
    here = session(name)
    first = Replayer(here, final_state(session(name)))
    before, topology = state(here), here.method.topology()
    kept = Snapshot.take(here)
    for part in first.segments:  # updates among them
        first.time(part, 1)
    kept.restore(here)
    assert_same(state(here), before)
    assert here.method.topology() == topology
    # And the steps after it are those that would have followed.
    losses = []
    for _ in range(2):
        kept.restore(here)
        here.method.after_step(1)
        clock: Any = replay.make_clock(CPU)
        losses.append([here.train_step(s, here.data.batch(s), clock)[0].item() for s in (2, 3)])
    assert losses[0] == losses[1]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...], Any]]:
    """Every step taken: its number, its flags, and what its update did."""
    steps: list[Any] = []
    original = Session.train_step

    def train_step(self: Session, step: int, batch: Any, clock: Any) -> Any:
        flags = self.method.flags(step)
        loss, update = original(self, step, batch, clock)
        steps.append((step, flags, update))
        return loss, update

    monkeypatch.setattr(Session, "train_step", train_step)
    return steps


@pytest.mark.parametrize("name", METHODS)
def test_segments_time_what_they_say(name: str, taken: list[Any]) -> None:
    replayer = Replayer(session(name), final_state(session(name)))
    for part in replayer.segments:
        taken.clear()
        times = replayer.time(part, 3)
        assert all(ms > 0 for ms in times)
        if part.is_window:
            assert len(times) == 3 * part.length
            updates = [update for _, flags, update in taken if UPDATE in flags]
            assert len(updates) >= 3
            assert all(event.executed for update in updates for event in update.events)
            continue
        assert len(times) == 3
        assert len(taken) == REWARM_STEPS + 3
        (flags,) = {flags for _, flags, _ in taken}
        assert ("+".join(sorted(flags)) or "ordinary") == part.name.removesuffix(FINAL)
        assert not any(update for _, _, update in taken)


def test_final_widths_are_those_after_the_last_update() -> None:
    walked = session("barter")
    final = unpack(pack(final_state(walked)))
    assert final is not None
    replayer = Replayer(session("barter"), final)
    (part,) = [p for p in replayer.segments if p.name == "ordinary at final widths"]
    replayer.prepare(part)
    assert replayer.session.method.topology() == walked.method.topology()
    assert replayer.session.method.topology() != session("barter").method.topology()
    assert all(bool(p.any()) for p in replayer.session.model.parameters())


@pytest.mark.parametrize("name", ["dense", "barter", "rigl"])
def test_scout_knows_the_costs(name: str) -> None:
    spec = session(name).spec
    known = scouted(spec, CPU)
    assert (known.final is not None) == (name == "barter")
    assert known.run["active_parameters"] <= known.run["stored_parameters"]
    for row, part in zip(known.segments, known.parts, strict=True):
        assert row["segment"] == part.name
        assert row["training_macs"] > 0
        assert row["peak_allocated_bytes"] > 0
    assert known.run["budget_invariant"] == str(
        get_method(name).create(spec.config).budget_invariant
    )
