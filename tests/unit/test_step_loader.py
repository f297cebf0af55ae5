"""Batches made ahead by other processes are those that this one would make."""

import os
import pickle

import pytest
import torch

from bench.datasets.loader import Batch, StepLoader


def make(step: int) -> Batch:
    """The step and who made it."""
    return torch.tensor([step]), torch.tensor([os.getpid()])


def failing(step: int) -> Batch:
    raise OSError(f"no step {step}")


def taken(loader: StepLoader, step: int) -> tuple[int, bool]:
    """The step that came, and whether this process made it."""
    images, targets = loader.batch(step)
    return int(images), int(targets) == os.getpid()


@pytest.mark.parametrize("processes", [1, 2])
def test_steps_in_order_are_made_ahead(processes: int) -> None:
    loader = StepLoader(make, processes, pin=False)
    assert [taken(loader, step) for step in range(1, 30)] == [
        (step, False) for step in range(1, 30)
    ]


def test_without_processes_batches_are_made_here() -> None:
    loader = StepLoader(make, 0, pin=False)
    assert [taken(loader, step) for step in (1, 2, 7)] == [(1, True), (2, True), (7, True)]


def test_a_step_out_of_order_is_made_here_and_costs_nothing_that_was_ahead() -> None:
    loader = StepLoader(make, 1, pin=False)
    assert taken(loader, 1) == (1, False)
    assert taken(loader, 500) == (500, True)
    assert taken(loader, 1) == (1, True)
    assert taken(loader, 2) == (2, False)


def test_a_resumed_run_is_made_ahead_from_its_second_step() -> None:
    loader = StepLoader(make, 1, pin=False)
    assert [taken(loader, step) for step in (701, 702, 703)] == [
        (701, True),
        (702, False),
        (703, False),
    ]


def test_the_global_random_state_is_untouched() -> None:
    before = torch.get_rng_state()
    StepLoader(make, 1, pin=False).batch(1)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_goes_wrong_elsewhere_is_said_here() -> None:
    with pytest.raises(OSError, match="no step 1"):
        StepLoader(failing, 1, pin=False).batch(1)


def test_what_travels_to_a_fresh_process() -> None:
    assert pickle.loads(pickle.dumps(make))(3)[0].item() == 3
