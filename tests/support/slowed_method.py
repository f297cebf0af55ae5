"""The method of `tests.support.slowed`."""

import time
from typing import Any

from torch import nn
from torch.optim import Optimizer

from methods.base import MethodContext, SparseMethod
from tests.support.slowed import SlowedConfig


class Slowed(SparseMethod):
    """Computes nothing useful for a percentage of the time since the forward pass began."""

    name = "slowed"
    config_type = SlowedConfig
    config: SlowedConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def attach(self, model: nn.Module, optimizer: Optimizer, context: MethodContext) -> None:
        super().attach(model, optimizer, context)
        self._began = time.perf_counter()
        model.register_forward_pre_hook(self._begin)

    def _begin(self, *_: Any) -> None:
        self._began = time.perf_counter()

    def after_step(self, step: int) -> None:
        now = time.perf_counter()
        until = now + (now - self._began) * self.config.percent / 100
        while time.perf_counter() < until:
            pass
