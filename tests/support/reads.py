"""The harness's counter of host synchronisations, as tests of methods use it: on the CPU."""

import torch

from bench.measure.operations import OperationCounter


class CountReads(OperationCounter):
    """What would make the host wait for a device, on machines that have none."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))

    @property
    def seen(self) -> list[str]:
        return self.waits
