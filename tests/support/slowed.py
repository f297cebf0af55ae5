"""A dense method that is slower by a chosen percentage: what a gate has to find. For tests alone.

Importing this module registers it. A worker process imports it when it unpickles the run's
configuration, so it is known there as well. No torch here.
"""

from dataclasses import dataclass

from bench.method_registry import METHODS, MethodInfo
from methods.config import Config


@dataclass(frozen=True)
class SlowedConfig(Config):
    percent: float = 0.0
    """Of the step's own time."""


METHODS["slowed"] = MethodInfo(
    "slowed",
    "dense, made slower on purpose",
    "tests.support.slowed_method:Slowed",
    SlowedConfig,
    sparse=False,
)
