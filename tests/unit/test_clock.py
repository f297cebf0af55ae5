"""Clock: which stamps are paired, what is reused, and that nothing waits between reads."""

import itertools

import pytest
import torch

from bench.measure.clock import Clock, EventClock, HostClock, StepTimes, make_clock


class FakeDevice:
    """A device whose time the test sets; its events refuse to be read before a synchronisation."""

    def __init__(self):
        self.now_ms = 0.0
        self.created = 0
        self.synchronized = 0
        self.settled_ms = -1.0

    def synchronize(self):
        self.synchronized += 1
        self.settled_ms = self.now_ms

    def event(self):
        self.created += 1
        return FakeEvent(self)

    def clock(self) -> EventClock:
        return EventClock(self.event, self.synchronize)


class FakeEvent:
    def __init__(self, device: FakeDevice):
        self.device = device
        self.at_ms: float | None = None

    def record(self):
        self.at_ms = self.device.now_ms

    def elapsed_time(self, end_event, /) -> float:
        assert self.at_ms is not None
        assert end_event.at_ms is not None
        assert max(self.at_ms, end_event.at_ms) <= self.device.settled_ms, "read before waiting"
        return end_event.at_ms - self.at_ms


def run_step(clock: Clock, device: FakeDevice, spans: list[tuple[str, float]]) -> None:
    clock.start_step()
    for name, duration_ms in spans:
        device.now_ms += duration_ms
        clock.mark(name)


def test_spans_are_the_times_between_neighbouring_marks():
    device = FakeDevice()
    clock = device.clock()
    run_step(clock, device, [("forward", 1.0), ("backward", 20.0), ("optimizer", 300.0)])
    assert clock.read() == [
        StepTimes(321.0, {"forward": 1.0, "backward": 20.0, "optimizer": 300.0})
    ]


def test_time_between_steps_belongs_to_no_step():
    device = FakeDevice()
    clock = device.clock()
    run_step(clock, device, [("forward", 1.0)])
    device.now_ms += 1000.0
    run_step(clock, device, [("forward", 2.0), ("topology", 4.0)])
    assert clock.read() == [
        StepTimes(1.0, {"forward": 1.0}),
        StepTimes(6.0, {"forward": 2.0, "topology": 4.0}),
    ]


def test_a_name_marked_twice_holds_the_sum():
    device = FakeDevice()
    clock = device.clock()
    run_step(clock, device, [("forward", 1.0), ("backward", 2.0), ("forward", 4.0)])
    assert clock.read() == [StepTimes(7.0, {"forward": 5.0, "backward": 2.0})]


def test_only_read_waits_and_once_for_all_steps():
    device = FakeDevice()
    clock = device.clock()
    for _ in range(5):
        run_step(clock, device, [("forward", 1.0), ("backward", 1.0)])
    assert device.synchronized == 0
    assert len(clock.read()) == 5
    assert device.synchronized == 1
    assert clock.read() == []
    assert device.synchronized == 1, "nothing to read, nothing to wait for"


def test_events_are_reused_after_a_read_and_never_before():
    device = FakeDevice()
    clock = device.clock()
    for _ in range(3):
        run_step(clock, device, [("forward", 1.0), ("backward", 2.0)])
    assert device.created == 9
    clock.read()
    for _ in range(3):
        run_step(clock, device, [("forward", 3.0), ("backward", 4.0)])
    assert device.created == 9
    assert clock.read() == [StepTimes(7.0, {"forward": 3.0, "backward": 4.0})] * 3


def test_a_step_just_started_survives_a_read():
    device = FakeDevice()
    clock = device.clock()
    run_step(clock, device, [("forward", 1.0)])
    clock.start_step()
    device.now_ms += 8.0
    assert [step.step_ms for step in clock.read()] == [1.0]
    clock.mark("forward")
    assert [step.step_ms for step in clock.read()] == [8.0]


def test_misuse_raises():
    clock = HostClock()
    with pytest.raises(RuntimeError, match="outside a step"):
        clock.mark("forward")
    clock.start_step()
    with pytest.raises(RuntimeError, match="no mark"):
        clock.start_step()
    clock.mark("forward")
    clock.read()
    with pytest.raises(RuntimeError, match="outside a step"):
        clock.mark("backward")


def test_host_clock_converts_nanoseconds():
    ticks = iter([5_000_000, 6_500_000, 9_500_000])
    clock = HostClock(now_ns=lambda: next(ticks))
    clock.start_step()
    clock.mark("forward")
    clock.mark("backward")
    assert clock.read() == [StepTimes(4.5, {"forward": 1.5, "backward": 3.0})]


def test_host_clock_of_a_device_without_events_waits_before_each_stamp():
    order: list[str] = []
    counter = itertools.count()

    def now_ns() -> int:
        order.append("now")
        return next(counter)

    clock = HostClock(now_ns, synchronize=lambda: order.append("wait"))
    clock.start_step()
    clock.mark("forward")
    assert order == ["wait", "now", "wait", "now"]


def test_make_clock_on_cpu_measures_something():
    clock = make_clock(torch.device("cpu"))
    assert isinstance(clock, HostClock)
    clock.start_step()
    clock.mark("forward")
    (step,) = clock.read()
    assert step.step_ms >= 0
    assert step.spans == {"forward": step.step_ms}


def test_make_clock_on_cuda_records_in_the_stream_of_that_device(monkeypatch):
    device = FakeDevice()
    streams: list[object] = []

    class StreamEvent(FakeEvent):
        def record(self, stream=None):
            streams.append(stream)
            super().record()

    def synchronize(which):
        assert which == torch.device("cuda:1")
        device.synchronize()

    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: StreamEvent(device))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda which: f"stream of {which}")
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    clock = make_clock(torch.device("cuda:1"))
    run_step(clock, device, [("forward", 2.0)])
    assert clock.read() == [StepTimes(2.0, {"forward": 2.0})]
    assert streams == ["stream of cuda:1"] * 2


def test_make_clock_refuses_other_devices():
    with pytest.raises(ValueError, match="no clock for device type 'meta'"):
        make_clock(torch.device("meta"))
