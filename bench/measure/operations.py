"""Counts what keeps the host busy in a step: operators dispatched, and waits for the device.

Both numbers are exact, the same on every repetition, and mean on a CPU what they mean on a GPU.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from bench.measure.placement import Placement, tensors_in

_DATA_DECIDES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""torch's own marks of operators that give a Python value, or a shape, that the data decide."""
_NO_OPERATORS = {"profiler", "prim"}
"""Namespaces of marks for the profiler and of questions about a tensor."""
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
_MASK_TYPES = (torch.bool, torch.uint8)
_TO_HOST = {"cpu", "tolist", "numpy", "__array__"}
_FROM_DATA = {"tensor", "as_tensor", "new_tensor"}


class OperationCounter(ExitStack):
    """Counts while active, in the forward pass, the backward pass (in the threads of autograd,
    too), the optimizer and all else.

    `operators`: operators that reach the dispatcher below autograd, of ATen or another library. A
    fused or foreach operator is one. Views and other operators that launch no kernel count as well,
    since the host pays for them; so does the copy to the host, which is none on a CPU.

    `waits`: the name of each host synchronisation, in order:

    * a value read (`item`, `bool`, `float`, an `if`: `_local_scalar_dense`), `equal`, `allclose`;
    * a result whose shape the data decide: `nonzero`, `masked_select`, `unique`, ..., and one for
      each mask (bool or uint8) among the indices of an indexed read or write;
    * a blocking copy from the device to the host or back: `cpu`, `tolist`, `copy_`, `torch.tensor`
      of Python numbers onto the device, ...

    What is on the host anyway is no wait, and a copy is none to the tensor that it gave: in
    `x.cpu().numpy()` the host waits once.

    Not seen: explicit calls (`torch.cuda.synchronize`, events, streams), waits inside an operator
    beyond its one (a solver that checks its result, the allocator), host tensors used as indices of
    device tensors, collectives, and what torch's own Python functions ask of a tensor other than
    through operators (`print`). In inference mode, composite operators count as one.

    Args:
        device: of the counted program.
        host_tensors: tensors that are on the host although the device is a CPU.
    """

    def __init__(self, device: torch.device, host_tensors: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.operators = 0
        self.waits: list[str] = []
        self.placement = Placement(device, host_tensors)

    @property
    def host_synchronisations(self) -> int:
        return len(self.waits)

    def __enter__(self) -> Self:
        super().__enter__()
        self.enter_context(_Operators(self))
        self.enter_context(_Calls(self))
        return self


class _Operators(TorchDispatchMode):
    """Operators, and the waits that are operators."""

    supports_higher_order_operators = True

    def __init__(self, counter: OperationCounter) -> None:
        super().__init__()
        self._counter, self._placement = counter, counter.placement

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "overloadpacket", func).__name__
        self._counter.operators += getattr(func, "namespace", "") not in _NO_OPERATORS
        self._counter.waits += [name] * self._data_waits(func, name, args, kwargs)
        if name in ("_to_copy", "copy_") and self._crosses(name, args, kwargs):
            self._counter.waits.append(name)
        result = func(*args, **kwargs)
        self._placement.follow((args, kwargs), result)
        return result

    def _data_waits(self, func: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> int:
        if not self._placement.any_on_device((args, kwargs)):
            return 0
        if name in _INDEXING:
            return sum(i is not None and i.dtype in _MASK_TYPES for i in args[1])
        if name == "repeat_interleave" and kwargs.get("output_size") is not None:
            return 0
        return int(not _DATA_DECIDES.isdisjoint(getattr(func, "tags", ())))

    def _crosses(self, name: str, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether a copy goes from host to device or back, and blocks."""
        if kwargs.get("non_blocking") or (name == "copy_" and True in args[2:]):
            return False
        if name == "copy_":
            return self._placement.on_host(args[0]) != self._placement.on_host(args[1])
        device = kwargs.get("device")
        if device is None or self._placement.is_imagined:
            return False
        return self._placement.is_host_name(device) != self._placement.on_host(args[0])


class _Calls(TorchFunctionMode):
    """What no operator shows: tensors made of numbers and, on a CPU, copies that are none there."""

    def __init__(self, counter: OperationCounter) -> None:
        super().__init__()
        self._counter, self._placement = counter, counter.placement

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _FROM_DATA:
            return self._make(name, func, args, kwargs)
        if not self._placement.is_imagined:
            return func(*args, **kwargs)
        if name in _TO_HOST and not self._placement.on_host(args[0]):
            return self._move(name, func, args, kwargs, to_host=True)
        if name == "to":
            target = self._target(args, kwargs)
            if target is not None and target != self._placement.on_host(args[0]):
                return self._move(name, func, args, kwargs, to_host=target)
        result = func(*args, **kwargs)
        self._mark_made(result, args, kwargs)
        return result

    def _mark_made(self, result: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """What is made from no tensor and for no other device is the host's."""
        device = kwargs.get("device")
        is_host = device is None or self._placement.is_host_name(device)
        if is_host and isinstance(result, Tensor) and not tensors_in((args, kwargs)):
            self._placement.mark_host(result)

    def _make(self, name: str, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A tensor from Python numbers: one wait for its copy to the device, and one for each of
        the numbers that has to be read first."""
        waits = self._counter.waits
        like = args[0] if name == "new_tensor" else None
        data = kwargs["data"] if "data" in kwargs else args[like is not None]
        if not isinstance(data, Tensor):
            waits += [name] * sum(not self._placement.on_host(x) for x in tensors_in(data))
        before = len(waits)
        result = func(*args, **kwargs)
        if not isinstance(data, Tensor) and self._is_for_device(like, kwargs):
            waits += [name] * (len(waits) == before)  # unless it was an operator
        else:
            self._mark_made(result, args, kwargs)
        return result

    def _is_for_device(self, like: Tensor | None, kwargs: dict[str, Any]) -> bool:
        if kwargs.get("device") is not None:
            return not self._placement.is_host_name(kwargs["device"])
        return like is not None and not self._placement.on_host(like)

    def _target(self, args: tuple, kwargs: dict[str, Any]) -> bool | None:
        """Of `Tensor.to`: whether the host is asked for; None if no place is."""
        for asked in (*args[1:], kwargs.get("device"), kwargs.get("other")):
            if isinstance(asked, Tensor):
                return self._placement.on_host(asked)
            if isinstance(asked, str | torch.device):
                return self._placement.is_host_name(asked)
        return None

    def _move(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        to_host: bool,
    ) -> Any:
        """Does on a CPU what `func` does there, and books the copy that it is on a GPU."""
        if not kwargs.get("non_blocking"):
            self._counter.waits.append(name)
        before = self._counter.operators
        result = func(*args, **kwargs)
        if name in ("cpu", "to"):
            # A tensor of its own: the one that was copied stays where it is.
            with _disable_current_modes():
                result = result.clone()
            if to_host:
                self._placement.mark_host(result)
        self._counter.operators = max(self._counter.operators, before + 1)
        return result
