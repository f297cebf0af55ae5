"""The only place that remaps optimizer state when a Parameter is replaced by one of another shape.

Supported are optimizers whose per-parameter state is known here: Adam, AdamW (any
implementation) and SGD with momentum. Anything else raises before a tensor is touched.
"""

from collections.abc import Callable, Iterable

from torch import Tensor, nn
from torch.optim import Optimizer

PER_ENTRY = frozenset({"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"})
"""State with one number per parameter entry: cut and cloned like the parameter."""

PER_PARAMETER = frozenset({"step"})
"""State that a change of shape leaves alone (specification, section 2, rule 9)."""


class UnknownOptimizerStateError(TypeError):
    """State that cannot be remapped without knowing what it means."""


def check_state(optimizer: Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Raise UnknownOptimizerStateError unless all state of `parameters` can be remapped."""
    for parameter in parameters:
        for key, value in optimizer.state.get(parameter, {}).items():
            if key not in PER_ENTRY | PER_PARAMETER:
                raise UnknownOptimizerStateError(
                    f"{type(optimizer).__name__} keeps {key!r}, which has no rule for resizing;"
                    f" known are {', '.join(sorted(PER_ENTRY | PER_PARAMETER))}"
                )
            if key in PER_ENTRY and value is not None and value.shape != parameter.shape:
                raise UnknownOptimizerStateError(
                    f"{type(optimizer).__name__} keeps {key!r} of shape {tuple(value.shape)}"
                    f" for a parameter of shape {tuple(parameter.shape)}"
                )


def replace_parameter(
    optimizer: Optimizer,
    old: nn.Parameter,
    new: nn.Parameter,
    remap: Callable[[Tensor], Tensor],
) -> None:
    """Put `new` where `old` is in the optimizer's groups, its state remapped.

    A parameter that the optimizer does not hold (a frozen one) has nothing to remap.

    Args:
        remap: from a per-entry state tensor of `old` to that of `new`.
    """
    for group in optimizer.param_groups:
        for place, parameter in enumerate(group["params"]):
            if parameter is old:
                group["params"][place] = new
    state = optimizer.state.pop(old, None)
    if state is not None:
        optimizer.state[new] = {
            key: remap(value) if key in PER_ENTRY and value is not None else value
            for key, value in state.items()
        }
