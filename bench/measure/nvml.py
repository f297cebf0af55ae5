"""NVIDIA's management library, or its absence: a machine without a GPU runs the same code.

NVML knows all GPUs of the machine in PCI order, whatever CUDA_VISIBLE_DEVICES says, and needs
neither torch nor a CUDA context.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def session(nvml: Any = None) -> Iterator[Any | None]:
    """The initialised `pynvml` module, or None without library, driver or permission.

    Args:
        nvml: stands in for the module (tests).
    """
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            yield None
            return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        with suppress(nvml.NVMLError):  # a driver that was lost meanwhile
            nvml.nvmlShutdown()


def text(value: str | bytes) -> str:
    """Old releases of the bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def ask(nvml: Any, function: str, *arguments: Any) -> Any | None:
    """The answer of one NVML function; None if this driver, GPU or release does not have it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None
