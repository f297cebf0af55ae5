"""Counts the multiply-accumulates of a program from the operators that it really executes.

torch's own counter lets an operator that it does not know count zero; on CPU that is all of fused
attention. Here an operator that could multiply matrices and has no rule is an error.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from bench.measure.mac_rules import RULES, UnknownOperatorError, count_operator

__all__ = ["MacCount", "MacCounter", "UnknownOperatorError", "count_training_macs"]

Phase = Literal["forward", "backward"]

# Namespaces whose operators are torch's own. Communication moves numbers and multiplies none.
_COMMUNICATION = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor"}
_OWN_NAMESPACES = {"aten", "prim", "prims", "profiler"} | _COMMUNICATION

_MATMUL_WORD = re.compile(
    r"\w*(mm|mv|dot|rnn|lstm|gru|linear)|\w*gemm\w*|\w*matmul\w*|conv(?!ert)\w*|\w*convolution\w*"
    r"|attention|transformer|encoder|einsum|tensordot|inner|outer|ger|addr|kron|bilinear|trilinear"
    # Not products of matrices, but built from them: silence would be just as wrong.
    r"|[cp]dist|linalg|cholesky|svd|geqrf|or[gm]qr|triangular|lstsq|inverse|slogdet|lu|fft"
)
# Words of operators that look like products and are none: interpolation, norms, checks.
_HARMLESS = re.compile(r"upsample|linalg_(vector_norm|cross|check_errors|_powsum|diagonal)")


@dataclass(frozen=True)
class MacCount:
    """Multiply-accumulates, of all images together.

    forward, backward: algorithmic; `training` is their sum and the figure to compare.
    recomputed: products that were computed before and repeated to save memory (scores in a fused
        attention's backward, forward passes repeated by activation checkpointing).
    """

    forward: int = 0
    backward: int = 0
    recomputed: int = 0

    @property
    def training(self) -> int:
        return self.forward + self.backward


def is_matmul_like(operator: str) -> bool:
    """Whether an operator, by the words of its name, might multiply matrices."""
    if _HARMLESS.search(operator):
        return False
    return any(_MATMUL_WORD.fullmatch(word) for word in operator.split("_"))


def qualified_name(func: OpOverload) -> str:
    """`namespace::operator` without the overload; in-place operators under the plain name."""
    return str(func.overloadpacket._qualified_op_name).rstrip("_")


def _is_composite(func: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    )


def _repeats_forward() -> bool:
    """Whether this operator repeats a forward pass inside a running backward pass.

    The engine runs gradients with grad mode off (unless `create_graph`); torch.utils.checkpoint,
    in both of its forms, turns it on to repeat the forward pass, and nothing else does.
    """
    return torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled()


class MacCounter(TorchDispatchMode):
    """Counts while active; `count` holds the sums, over several activations if there are.

    The caller says which phase runs (forward unless told otherwise)::

        with counter:
            loss = model(images).sum()
            with counter.phase("backward"):
                loss.backward()

    Counts are of executed shapes in eager execution: what a compiled graph or a hand-written kernel
    launched past the dispatcher does is not seen, and an attention that pads its head width
    counts the padding. A backward pass with `create_graph=True` cannot be told from a repeated
    forward pass: use the forward phase for it, or do not count it.

    Args:
        zero_cost: qualified names (`torchvision::nms`) known to multiply nothing.

    Raises (from the counted program) UnknownOperatorError, naming the operator: a matmul-like one
    without a rule, a higher-order operator, one of a foreign namespace, or sparse operands.
    """

    supports_higher_order_operators = True  # or torch refuses them with a riddle of its own

    def __init__(self, zero_cost: Collection[str] = ()) -> None:
        super().__init__()
        self._zero_cost = frozenset(zero_cost)
        self._phase: Phase = "forward"
        self._sums: Counter[str] = Counter()

    @property
    def count(self) -> MacCount:
        return MacCount(self._sums["forward"], self._sums["backward"], self._sums["recomputed"])

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Books what runs inside as `forward` or `backward`. Raises ValueError for other words."""
        if phase not in ("forward", "backward"):
            raise ValueError(f"unknown phase {phase!r}: forward or backward")
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            raise UnknownOperatorError(f"higher-order operator {func} has no MAC rule")
        name = qualified_name(func)
        if name in RULES:
            result = func(*args, **kwargs)
            names = (argument.name for argument in func._schema.arguments)
            self._add(*count_operator(name, dict(zip(names, args, strict=False)) | kwargs, result))
            return result
        if name not in self._zero_cost:
            if func.namespace == "aten" and _is_composite(func):
                # Composite operators reach a dispatch mode in inference mode only: take them apart.
                with self:
                    return func.decompose(*args, **kwargs)
            self._refuse_unknown(name, func.namespace)
        return func(*args, **kwargs)

    def _add(self, algorithmic: int, recomputed: int) -> None:
        if self._phase == "backward" and _repeats_forward():
            self._sums["recomputed"] += algorithmic + recomputed
        else:
            self._sums[self._phase] += algorithmic
            self._sums["recomputed"] += recomputed

    @staticmethod
    def _refuse_unknown(name: str, namespace: str) -> None:
        if namespace not in _OWN_NAMESPACES:
            raise UnknownOperatorError(
                f"{name} is not an operator of torch: name it in zero_cost if it multiplies nothing"
            )
        if is_matmul_like(name.removeprefix(f"{namespace}::")):
            raise UnknownOperatorError(f"{name} may multiply matrices and has no MAC rule")


def count_training_macs(run_forward: Callable[[], Tensor]) -> MacCount:
    """MACs of one forward and one backward pass.

    Args:
        run_forward: runs the model and returns the scalar loss. Gradients accumulate in the
            parameters and random numbers are drawn as in any step: both are the caller's to undo.

    Raises UnknownOperatorError as MacCounter does.
    """
    counter = MacCounter()
    with counter:
        loss = run_forward()
        with counter.phase("backward"):
            loss.backward()
    return counter.count
