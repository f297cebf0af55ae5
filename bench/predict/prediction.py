"""What every kind of step of a run costs, from shapes alone: the same steps, meters and counters as
in a run, on tensors without data.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from bench.accounting import StepAccount, account_step
from bench.measure.clock import make_clock
from bench.predict.cards import Card
from bench.predict.cuda import AsOnCuda, kernel_on_cuda
from bench.predict.fake import HostReads, fake_session
from bench.predict.kinds import StepKind, step_kinds
from bench.predict.roofline import OperatorCosts
from bench.predict.rows import PARTS, PEAK, Row
from bench.records import ideal_step_macs
from bench.run_spec import RunSpec
from bench.session import Session, build_session
from methods.budget import BudgetError

DATA_DECIDE = "the values of tensors decide the shapes of others"


@dataclass(frozen=True)
class Prediction:
    """One kind of step of one run."""

    kind: StepKind
    account: StepAccount
    operators: OperatorCosts
    ideal_macs: int
    """Of the minibatch, by what is active before the step."""

    def columns(self, card: Card | None) -> Row:
        """Of `bench.predict.rows`; without a card there is no time."""
        macs = self.account.macs
        return {
            "attention_kernel": self.operators.attention_kernel,
            PEAK: self.account.peak_allocated_bytes,
            **{PARTS[part]: size for part, size in self.account.peak_parts.items()},
            "executed_macs": macs.training,
            "executed_forward_macs": macs.forward,
            "executed_backward_macs": macs.backward,
            "recomputed_macs": macs.recomputed,
            "ideal_macs": self.ideal_macs,
            "predicted_moved_bytes": self.operators.moved_bytes,
            "predicted_step_ms": self.operators.milliseconds(card) if card else None,
        }


@dataclass(frozen=True)
class Unpredicted:
    """A kind of step, or (None) a whole run, of which nothing can be said, and why."""

    kind: StepKind | None
    reason: str

    def columns(self, card: Card | None) -> Row:
        return {"reason": self.reason}


def predict(spec: RunSpec) -> Iterator[Prediction | Unpredicted]:
    """Every kind of step of a run at its initial widths, updates last. Computes no step.

    Args:
        spec: its `device` is `cpu` or `cuda`; neither a GPU nor a torch with CUDA is needed.
    """
    host = torch.device("cpu")
    try:
        session = build_session(spec, host)
    except BudgetError as error:
        yield Unpredicted(None, str(error))
        return
    method = session.method
    for kind in step_kinds(method.flags, spec.total_steps):
        ideal = ideal_step_macs(spec, method.topology(), method.active_parameters(), kind.flags)
        try:
            account, costs = account_fake_step(session, kind.step)
        except (DataDependentOutputException, DynamicOutputShapeException):
            yield Unpredicted(kind, DATA_DECIDE)
        else:
            yield Prediction(kind, account, costs, ideal)


def account_fake_step(session: Session, step: int) -> tuple[StepAccount, OperatorCosts]:
    """Account one step of a session that was just built and stays as it is.

    The step before it is done first, so that the optimizer has its state and the method observes
    what it observes at that step.
    """
    fake_mode = FakeTensorMode()
    copy = fake_session(session, fake_mode)
    with ExitStack() as modes:
        modes.enter_context(fake_mode)
        modes.enter_context(HostReads())
        if session.spec.device == "cuda":
            execution = session.spec.execution
            kernel = kernel_on_cuda(execution.attention, execution.autocast)
            modes.enter_context(AsOnCuda(kernel))
        reach(copy, step)
        costs = modes.enter_context(OperatorCosts(session.spec.tf32))
        return account_step(copy, step), costs


def reach(session: Session, step: int) -> None:
    """Do the step before this one, if there is one, and nothing else of those before."""
    if step > 1:
        session.method.after_step(step - 2)
        session.train_step(step - 1, session.batch(step - 1), make_clock(session.device))
