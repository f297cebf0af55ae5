"""What torch itself did beside a run's steps while they were timed: cheap counters, read twice."""

import sys

import torch

from bench.reason_codes import ALLOCATOR_RETRY, AUTOTUNE, RECOMPILED

_DYNAMO = "torch._dynamo.utils"


def graphs_compiled() -> int:
    """Graphs that torch's compiler has made in this process."""
    # A program that compiles nothing need not have loaded the compiler.
    return _compiler_counters().get("stats", {}).get("unique_graphs", 0)


def _compiler_counters() -> dict[str, dict[str, int]]:
    return getattr(sys.modules.get(_DYNAMO), "counters", {})


class Disturbances:
    """Counts from its making, or the last `start`, until asked for codes.

    Not seen: kernels that choose their launch parameters by trial on their own (Triton's
    `autotune`), and compilation outside torch's compiler.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.start()

    def start(self) -> None:
        """From now on: what warm-up steps did is no disturbance."""
        self._before = self._counters()

    def codes(self) -> list[str]:
        """Codes of what has happened since."""
        now = self._counters()
        happened = {code for code, count in now.items() if count > self._before[code]}
        if self._device.type == "cuda" and torch.backends.cudnn.benchmark:
            happened.add(AUTOTUNE)  # it tries again at every new shape
        return [code for code in now if code in happened]

    def _counters(self) -> dict[str, int]:
        inductor = _compiler_counters().get("inductor", {})
        return {
            ALLOCATOR_RETRY: self._allocator_retries(),
            RECOMPILED: graphs_compiled(),
            AUTOTUNE: inductor.get("select_algorithm_autotune", 0),
        }

    def _allocator_retries(self) -> int:
        if self._device.type != "cuda":
            return 0
        return torch.cuda.memory_stats(self._device).get("num_alloc_retries", 0)
