"""Pieces of a step that are recorded and replayed: when, on which memory, with which outcome."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bench import cuda_graphs
from bench import session as session_module
from bench.accounting import account_step
from bench.cuda_graphs import CudaGraphs, CudaRecording
from bench.errors import UsageError
from bench.execution import Execution
from bench.measure.clock import make_clock
from bench.optimization import make_optimizer, set_rate
from bench.schema import CAPTURE
from bench.session import Session, build_session
from bench.snapshot import Snapshot
from bench.step_pieces import CALLED, RecordedPieces
from bench.study_file import study_spec
from bench.train import Training
from bench.workloads.recipes import VIT_DIGITS
from tests.support.tape import Tapes

CPU = torch.device("cpu")
STEPS = 14


class FakeRecording:
    def __init__(self, log: list[str], work: Callable[[], Any]) -> None:
        self._log, self._name, self.result = log, work(), None

    def replay(self) -> None:
        self._log.append(f"replay {self._name}")


class FakeBackend:
    """Logs; works are functions that return their name."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def call(self, work: Callable[[], Any]) -> Any:
        self.log.append(f"call {work()}")

    def record(self, work: Callable[[], Any]) -> FakeRecording:
        self.log.append(f"record {work()}")
        return FakeRecording(self.log, work)

    def release(self, recordings: list[Any]) -> None:
        self.log.append(f"release {len(recordings)}")


def batch(number: float, size: int = 2) -> tuple[Tensor, Tensor]:
    return torch.full((size, 3), number), torch.full((size,), int(number))


def step(pieces: RecordedPieces, key: str = "a", size: int = 2) -> None:
    pieces.start(key, batch(1, size))
    for name in ("forward", "backward", "optimizer"):
        pieces.run(name, lambda name=name: name)


ALL_CALLED = ["call forward", "call backward", "call optimizer"]
RECORDED = [
    f"{verb} {name}"
    for name in ("forward", "backward", "optimizer")
    for verb in ("record", "replay")
]
REPLAYED = ["replay forward", "replay backward", "replay optimizer"]
RELEASED = ["clear", "release 3"]


def logged() -> tuple[RecordedPieces, list[str]]:
    log: list[str] = []
    return RecordedPieces(FakeBackend(log), lambda: log.append("clear")), log


def test_pieces_are_called_then_recorded_then_replayed() -> None:
    pieces, log = logged()
    for _ in range(4):
        step(pieces)
    assert log == ALL_CALLED + RECORDED + REPLAYED + REPLAYED
    assert pieces.captures == 1


def test_a_new_epoch_releases_before_it_records() -> None:
    pieces, log = logged()
    for _ in range(2):
        step(pieces)
    pieces.forget()
    for _ in range(3):
        step(pieces)
    assert log == ALL_CALLED + RECORDED + RELEASED + ALL_CALLED + RECORDED + REPLAYED
    assert pieces.captures == 2


def test_other_operators_or_other_shapes_are_another_epoch() -> None:
    pieces, log = logged()
    for key, size in (("a", 2), ("a", 2), ("b", 2), ("b", 2), ("b", 4)):
        step(pieces, key, size)
    assert log == ALL_CALLED + RECORDED + RELEASED + ALL_CALLED + RECORDED + RELEASED + ALL_CALLED


def test_nothing_recorded_is_nothing_to_release() -> None:
    pieces, log = logged()
    pieces.forget()
    step(pieces)
    pieces.forget()
    step(pieces)
    assert log == ALL_CALLED + ALL_CALLED


def test_a_piece_that_was_left_out_is_recorded_later() -> None:
    pieces, log = logged()
    pieces.start("a", batch(1))
    pieces.run("forward", lambda: "forward")
    for _ in range(2):
        step(pieces)
    assert log == [
        *("call forward", "record forward", "replay forward", "call backward", "call optimizer"),
        *("replay forward", "record backward", "replay backward"),
        *("record optimizer", "replay optimizer"),
    ]
    assert pieces.captures == 1


def test_every_batch_is_copied_into_the_same_buffers() -> None:
    pieces, _ = logged()
    given = batch(1)
    first = pieces.start("a", given)
    assert first[0].data_ptr() != given[0].data_ptr()
    second = pieces.start("a", batch(7))
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]
    assert second[0].unique().tolist() == [7.0]
    assert second[1].unique().tolist() == [7]
    assert given[0].unique().tolist() == [1.0], "the data set's own tensor is not written to"


def session(monkeypatch: pytest.MonkeyPatch, method: str, tapes: Tapes, **changes: Any) -> Session:
    """Its pieces are recorded on tapes."""
    monkeypatch.setattr(session_module, "CudaGraphs", lambda device: tapes)
    given = {"methods": method, "steps": STEPS, "batch_size": 8, "seeds": "0", "density": "0.3"}
    (run,) = replace(study_spec(None, given | changes), device="cpu").runs()
    return build_session(replace(run, execution=Execution(cuda_graphs=True)), CPU)


def called(of: Session) -> Session:
    """The same, with pieces that are called."""
    return replace(of, pieces=CALLED)


def losses(of: Session) -> tuple[list[float], list[int]]:
    """Of every step, and the steps that replaced parameters."""
    clock, found, replaced = make_clock(CPU), [], []
    for number in range(1, STEPS + 1):
        loss, update = of.train_step(number, of.batch(number), clock)
        found.append(loss)
        replaced += [number] * bool(update.replaced_parameters)
    return [loss.item() for loss in found], replaced


@pytest.mark.parametrize("method", ["dense", "static", "barter", "rigl", "set", "snfs", "s2vite"])
def test_a_replayed_run_is_the_run(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, scores and masks: bit by bit, over updates and the end of score collection."""
    tapes = Tapes()
    usual, replayed = (session(monkeypatch, method, tapes) for _ in range(2))
    expected, transfers = losses(called(usual))
    assert tapes.events == []
    assert losses(replayed) == (expected, transfers)
    assert all(map(torch.equal, usual.model.parameters(), replayed.model.parameters()))
    assert all(map(torch.equal, usual.method.state_tensors(), replayed.method.state_tensors()))
    assert tapes.events.count("record") >= 3


def test_graphs_are_recorded_again_after_transfers_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tapes = Tapes()
    of = session(monkeypatch, "barter", tapes)
    clock, keys, expected = make_clock(CPU), [], []
    since, epochs = 0, 0
    for number in range(1, STEPS + 1):
        key, before = of.method.launch_key(), len(tapes.events)
        if keys and key != keys[-1] and since:
            expected += ["release 3"] * (since > 1)
            since = 0
        keys.append(key)
        _, update = of.train_step(number, of.batch(number), clock)
        expected += ["call"] * 3 if since == 0 else ["record"] * 3 if since == 1 else []
        epochs += since == 1
        since += 1
        if update.replaced_parameters:
            expected += ["release 3"] * (since > 1)
            since = 0
        assert tapes.events[before:] == expected[before:], number
    assert tapes.events == expected
    assert of.pieces.captures == epochs > 1
    assert len(set(keys)) > 1, "a collector closed on the way"


def test_masked_methods_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes = Tapes()
    losses(session(monkeypatch, "rigl", tapes))
    assert tapes.events == ["call"] * 3 + ["record"] * 3


def test_losses_outlive_later_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    of = session(monkeypatch, "dense", Tapes())
    clock = make_clock(CPU)
    kept = [of.train_step(number, of.batch(number), clock)[0] for number in range(1, 6)]
    assert len({loss.item() for loss in kept}) == 5


def test_restored_state_is_another_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer's moments are other tensors then: no graph may go on to read the old ones."""
    tapes = Tapes()
    of, usual = (session(monkeypatch, "dense", tapes) for _ in range(2))
    usual = called(usual)
    clock, found = make_clock(CPU), []
    for one in (of, usual):
        taken = None
        for number in range(1, 5):
            one.train_step(number, one.batch(number), clock)
            taken = taken or Snapshot.take(one)
        assert taken is not None
        taken.restore(one)
        found.append([one.train_step(n, one.batch(n), clock)[0].item() for n in range(2, 6)])
    assert found[0] == found[1]
    assert tapes.events == (["call"] * 3 + ["record"] * 3 + ["release 3"]) + (
        ["call"] * 3 + ["record"] * 3
    )


def test_counters_look_at_called_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    tapes = Tapes()
    of = session(monkeypatch, "dense", tapes)
    clock = make_clock(CPU)
    for number in (1, 2):
        of.train_step(number, of.batch(number), clock)
    assert account_step(of, 3).macs.training > 0
    assert tapes.events == ["call"] * 3 + ["record"] * 3 + ["release 3"]
    assert all(p.grad is None for p in of.model.parameters())


def test_steps_that_record_are_flagged_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    of = session(monkeypatch, "barter", Tapes())
    training = Training(of, lambda progress: None)
    training.run()
    flagged = [n for n, record in enumerate(training.steps, 1) if CAPTURE in record.flags]
    assert flagged[0] == 2
    assert training.captures == len(flagged) > 1


@pytest.mark.parametrize("method", ["rigl:overhead=official", "s2vite:overhead=official"])
def test_a_method_that_waits_for_the_device_is_refused(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="overhead=official waits for the device in its hooks"):
        session(monkeypatch, method, Tapes())


def test_the_rate_of_a_recorded_step_is_a_tensor_that_stays() -> None:
    optimizer = make_optimizer(torch.nn.Linear(1, 1), VIT_DIGITS, CPU, "fused", recorded=True)
    (group,) = optimizer.param_groups
    rate = group["lr"]
    set_rate(optimizer, 0.25)
    assert group["lr"] is rate
    assert rate.item() == 0.25
    assert group["capturable"]


class FakeCuda:
    """As much of torch.cuda as the backend needs; logs what it is asked for."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._pools = 0

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"torch.cuda.{name} is not expected here")

    def Stream(self, device: Any) -> "_FakeStream":  # noqa: N802
        return _FakeStream("side", self.log)

    def current_stream(self, device: Any) -> "_FakeStream":
        return _FakeStream("main", self.log)

    def stream(self, stream: "_FakeStream") -> "_Logged":
        return _Logged(self.log, f"on {stream.name}")

    def graph_pool_handle(self) -> str:
        self._pools += 1
        return f"pool {self._pools}"

    def CUDAGraph(self) -> "_FakeGraph":  # noqa: N802
        return _FakeGraph(self.log)

    def graph(self, graph: Any, pool: str, stream: Any, capture_error_mode: str) -> "_Logged":
        return _Logged(self.log, f"capture into {pool} on {stream.name}, {capture_error_mode}")

    def synchronize(self, device: Any) -> None:
        self.log.append("synchronize")

    def empty_cache(self) -> None:
        self.log.append("empty cache")


class _FakeStream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self._log = name, log

    def wait_stream(self, other: "_FakeStream") -> None:
        self._log.append(f"{self.name} waits for {other.name}")


class _FakeGraph:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def replay(self) -> None:
        self._log.append("replay")

    def reset(self) -> None:
        self._log.append("reset")


class _Logged:
    def __init__(self, log: list[str], what: str) -> None:
        self._log, self._what = log, what

    def __enter__(self) -> None:
        self._log.append(self._what)

    def __exit__(self, *_: Any) -> None:
        self._log.append("end")


def test_what_is_asked_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    monkeypatch.setattr(cuda_graphs.torch, "cuda", cuda)
    backend = CudaGraphs(torch.device("cuda", 0))
    assert backend.call(lambda: cuda.log.append("work") or 3) == 3
    assert cuda.log == ["side waits for main", "on side", "work", "end", "main waits for side"]
    cuda.log.clear()
    recordings: list[CudaRecording] = [backend.record(lambda: 5), backend.record(lambda: 6)]
    assert [recording.result for recording in recordings] == [5, 6]
    captured = ["capture into pool 1 on side, thread_local", "end"]
    assert cuda.log == captured * 2, "graphs of an epoch share a pool"
    cuda.log.clear()
    recordings[0].replay()
    backend.release(recordings)
    assert cuda.log == ["replay", "synchronize", "reset", "reset", "empty cache"]
    assert [recording.result for recording in recordings] == [None, None]
    backend.record(lambda: 7)
    assert cuda.log[-2] == "capture into pool 2 on side, thread_local"
