"""Which tensors are the host's and which the device's; on a CPU, which would be on a GPU machine.

A CPU run has one memory, so that a tensor's device says nothing there. What code would do on a GPU
is known all the same from how it asks for its tensors: it copies to the host with `.cpu()`, names
the run's device as a `torch.device`, and names none for what stays on the host.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter


def tensors_in(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_iter(tree) if isinstance(leaf, Tensor)]


class Placement:
    """Says of each tensor whether it is on the host. Of a device other than the CPU the tensors
    know it; on a CPU all are the device's but for those that were marked.

    Args:
        device: the run's.
        host_tensors: tensors known to be on the host whatever the device (Adam's step counters).
    """

    def __init__(self, device: torch.device, host_tensors: Iterable[Tensor] = ()) -> None:
        self.is_imagined = device.type == "cpu"
        self._host: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        for tensor in host_tensors:
            self.mark_host(tensor)

    def on_host(self, tensor: Tensor) -> bool:
        if not self.is_imagined:
            return tensor.device.type == "cpu"
        # Sparse tensors have no storage of their own and no way to the host but through dense ones.
        return tensor.layout == torch.strided and tensor.untyped_storage()._cdata in self._host

    def any_on_device(self, tree: Any) -> bool:
        return any(not self.on_host(tensor) for tensor in tensors_in(tree))

    def mark_host(self, tensor: Tensor) -> None:
        """From now on this tensor and its views are the host's (no effect but on a CPU)."""
        if self.is_imagined and tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            key = storage._cdata
            self._host[key] = weakref.ref(storage, lambda _: self._host.pop(key, None))

    def follow(self, inputs: Any, outputs: Any) -> None:
        """Results of the host's tensors alone are the host's."""
        if self._host and tensors_in(inputs) and not self.any_on_device(inputs):
            for tensor in tensors_in(outputs):
                self.mark_host(tensor)

    def is_host_name(self, device: Any) -> bool:
        """Whether a `device` argument names the host. On a CPU the text "cpu" does, as in code
        that serves all devices; a `torch.device` there is the run's."""
        if self.is_imagined:
            return isinstance(device, str)
        return torch.device(device).type == "cpu"
