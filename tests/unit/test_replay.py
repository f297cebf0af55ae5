"""Replaying segments of a schedule: exact restoration, and the right kinds of step timed."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from bench.measure.memory import allocated_bytes
from bench.method_registry import METHODS, get_method
from bench.reason_codes import BUDGET_BROKEN
from bench.records import step_rows, summary
from bench.schema import MEMORY_PARTS
from bench.session import Session, build_session
from bench.snapshot import Snapshot
from bench.study_file import study_spec
from bench.timing import replay
from bench.timing.replay import REWARM_STEPS, Replayer
from bench.timing.scout import final_state, pack, scouted, unpack
from bench.timing.segments import FINAL, UPDATE
from bench.train import Training

CPU = torch.device("cpu")


def session(method: str, steps: int = 60, **more: Any) -> Session:
    given = {"methods": method, "density": "0.5", "steps": steps, "batch_size": 4, "seeds": "0"}
    given |= more
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
        assert row["ideal_training_macs"] > 0
        assert sum(row[f"peak_{p}_bytes"] for p in MEMORY_PARTS) == row["peak_allocated_bytes"] > 0
    largest = max(known.segments, key=lambda row: row["peak_allocated_bytes"])
    for column in ("peak_allocated_bytes", *(f"peak_{part}_bytes" for part in MEMORY_PARTS)):
        assert known.run[column] == largest[column]
    assert known.run["reason_codes"] == []
    low, high = known.run["active_parameters_min"], known.run["active_parameters_max"]
    assert low <= known.run["active_parameters"] <= high
    assert known.run["budget_invariant"] == str(
        get_method(name).create(spec.config).budget_invariant
    )


@pytest.mark.parametrize("name", ["barter", "rigl", "snfs"])
def test_scout_foretells_the_macs_of_the_whole_schedule(name: str) -> None:
    training = Training(session(name), report=lambda progress: None)
    training.run()
    trained = summary(training, step_rows(training))
    known = scouted(training.session.spec, CPU).run
    for column in (
        *("training_macs_total", "ideal_training_macs_total"),
        *("macs_forward_per_image", "macs_backward_per_image", "macs_recomputed_per_image"),
    ):
        # SNFS rounds anew at every update, and so has some weights more or less.
        assert known[column] == pytest.approx(trained[column], rel=1e-4), column


def test_a_budget_that_a_method_breaks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    here = session("static")
    allowed = here.method.allowed_parameters()
    monkeypatch.setattr(type(here.method), "allowed_parameters", lambda self: allowed - 1)
    assert scouted(here.spec, CPU).run["reason_codes"] == [BUDGET_BROKEN]


def test_saved_states_know_what_they_hold() -> None:
    replayer = Replayer(session("dense"))
    parameters = list(replayer.session.model.parameters())
    # A copy of the parameters, two of Adam's moments, and one counter for each parameter.
    expected = sum(3 * allocated_bytes(4 * p.numel()) + allocated_bytes(4) for p in parameters)
    assert replayer.saved_bytes == expected


def test_padding_is_told_and_stays_zero_wherever_steps_are_replayed() -> None:
    """At density 0.3 the digits' FFNs have 38 to 39 of 128 channels: 48 in the tensors."""
    given = {"density": "0.3", "pad_channels": 16}
    here = session("barter", **given)
    replayer = Replayer(here, final_state(session("barter", **given)))
    for part in replayer.segments:
        replayer.prepare(part)
        widths = here.method.topology().channels_per_layer
        for layer, width in zip(here.method.channel_layers, widths, strict=True):
            assert layer.physical_width == -(-width // 16) * 16
            fc1 = layer.module.get_parameter("fc1.weight")
            assert fc1[:width].any(1).all()
            assert not fc1[width:].any()
            assert not layer.module.get_parameter("fc2.weight")[:, width:].any()
    exact = scouted(session("barter", density="0.3").spec, CPU)
    padded = scouted(here.spec, CPU)
    assert {tuple(row["padded_channels_per_layer"]) for row in exact.segments} == {(0, 0, 0, 0)}
    for mine, theirs in zip(padded.segments, exact.segments, strict=True):
        assert sum(mine["padded_channels_per_layer"]) > 0
        assert mine["ideal_training_macs"] == theirs["ideal_training_macs"]
        # A channel costs 3 passes through 2 matrices of width 64, for 17 tokens of 4 images.
        more = 3 * 2 * 64 * 17 * 4 * sum(mine["padded_channels_per_layer"])
        assert mine["training_macs"] == theirs["training_macs"] + more
    for column in ("stored_parameters", "active_parameters", "ideal_training_macs_total"):
        assert padded.run[column] == exact.run[column]
    assert padded.run["reason_codes"] == exact.run["reason_codes"] == []
