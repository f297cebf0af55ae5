"""The methods there are. No torch here: a method's class is loaded when a run needs it."""

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from baselines.config import RigLConfig, SetConfig, SnfsConfig, SRigLConfig
from baselines.s2vite_config import S2viteConfig
from bench.errors import UsageError
from methods.config import BarterConfig, CompactConfig, Config

if TYPE_CHECKING:
    from methods.base import SparseMethod


@dataclass(frozen=True)
class MethodInfo:
    name: str
    summary: str
    target: str
    """`module:Class` of the SparseMethod."""
    config: type[Config] = Config
    sparse: bool = True
    """Whether a density means anything to it; dense runs once, at density 1."""
    masked: bool = False
    """Whether it executes the dense model, with masks."""

    @property
    def transfers(self) -> bool:
        """Whether it moves units between layers on BARTER's schedule."""
        return issubclass(self.config, BarterConfig)

    def create(self, config: Config) -> "SparseMethod":
        """The method itself; imports torch."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)(config)


_ALL = (
    MethodInfo("dense", "the model as it is", "baselines.dense:Dense", sparse=False),
    MethodInfo(
        "static",
        "compact initial allocation, never changed",
        "methods.static:Static",
        CompactConfig,
    ),
    MethodInfo(
        "barter",
        "compact; transfers heads and channels between layers by score",
        "methods.barter:Barter",
        BarterConfig,
    ),
    MethodInfo(
        "barter-random-receiver",
        "BARTER with receiver and clone parent drawn at random",
        "methods.barter_random:BarterRandomReceiver",
        BarterConfig,
    ),
    MethodInfo(
        "barter-random-donor",
        "BARTER with the donor drawn at random",
        "methods.barter_random:BarterRandomDonor",
        BarterConfig,
    ),
    MethodInfo(
        "barter-random-pair",
        "BARTER with receiver, parent and donor drawn at random",
        "methods.barter_random:BarterRandomPair",
        BarterConfig,
    ),
    MethodInfo(
        "set",
        "masked; drops small weights, grows at random",
        "baselines.set:Set",
        SetConfig,
        masked=True,
    ),
    MethodInfo(
        "snfs",
        "masked; drops small weights, grows and redistributes by momentum",
        "baselines.snfs:Snfs",
        SnfsConfig,
        masked=True,
    ),
    MethodInfo(
        "rigl",
        "masked; drops small weights, grows where the dense gradient is largest",
        "baselines.rigl:RigL",
        RigLConfig,
        masked=True,
    ),
    MethodInfo(
        "srigl",
        "masked; RigL with a constant fan-in, whole rows may go",
        "baselines.srigl:SRigL",
        SRigLConfig,
        masked=True,
    ),
    MethodInfo(
        "s2vite",
        "masked; drops and grows heads and channels within each block",
        "baselines.s2vite:S2vite",
        S2viteConfig,
        masked=True,
    ),
    MethodInfo(
        "s2vite-exclude-dropped",
        "S2ViTE that never regrows what it has just dropped",
        "baselines.s2vite:S2viteExcludeDropped",
        S2viteConfig,
        masked=True,
    ),
)

METHODS = {info.name: info for info in _ALL}


def get_method(name: str) -> MethodInfo:
    """The method of that name; UsageError with the nearest one otherwise."""
    if name not in METHODS:
        near = get_close_matches(name, METHODS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(METHODS)}"
        raise UsageError(f"unknown method {name!r}; {hint}")
    return METHODS[name]
