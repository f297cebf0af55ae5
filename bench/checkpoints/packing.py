"""Nested state as JSON beside named tensors, and back: exactly, types of containers and keys too.

safetensors holds flat names of tensors. Everything else goes into the JSON, where Python's floats
survive to the last bit.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from torch import Tensor

Tensors = dict[str, Tensor]


def pack(state: Any, tensors: Tensors, name: str) -> Any:
    """What JSON can hold of `state`; its tensors are put into `tensors`, under names from `name`.

    Raises:
        TypeError: a value of a type that no method or optimizer should keep.
    """
    if isinstance(state, Tensor):
        tensors[name] = state.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(state, Mapping):
        items = state.items()
        return {"map": [[_key(k), pack(v, tensors, f"{name}.{k}")] for k, v in items]}
    if isinstance(state, list | tuple):
        packed = [pack(value, tensors, f"{name}.{i}") for i, value in enumerate(state)]
        return {type(state).__name__: packed}
    if isinstance(state, float) and not isfinite(state):
        return {"float": str(state)}
    if state is None or type(state) in (bool, int, float, str):
        return state
    raise TypeError(f"{name} is a {type(state).__name__}: a checkpoint has no form for that")


def unpack(packed: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What was packed. Raises KeyError, TypeError or ValueError for anything else."""
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "map":
            return {key: unpack(value, tensors) for key, value in content}
        case "list":
            return [unpack(value, tensors) for value in content]
        case "tuple":
            return tuple(unpack(value, tensors) for value in content)
        case "float":
            return float(content)
    raise ValueError(f"packed as {kind!r}")


def _key(key: Any) -> str | int:
    if type(key) not in (str, int):
        raise TypeError(f"a key of type {type(key).__name__}: a checkpoint has no form for that")
    return key
