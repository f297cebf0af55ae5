"""How a run's arithmetic is carried out: what contenders must share to be compared. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from bench.errors import UsageError
from bench.workloads.registry import Workload

AUTOCASTS = ("none", "bf16", "fp16")
ATTENTIONS = ("auto", "math", "flash", "efficient", "cudnn")
OPTIMIZERS = ("fused", "foreach", "loop")
RECOMPUTABLE = ("norm", "gelu")
NONE = "none"


@dataclass(frozen=True)
class Execution:
    """What belongs neither to the method nor to the recipe, and yet decides time, memory, rounding.

    The defaults are what a run does that asks for nothing; they have no part in its identity.
    """

    tf32: bool | None = None
    """Whether matrix products may run in TF32; None: as the recipe says."""
    autocast: str = "none"
    """`none`, `bf16` or `fp16` (with a scaled loss): of forward pass and loss."""
    compile: bool = False
    """Whether the transformer blocks are compiled by torch.compile."""
    attention: str = "auto"
    """Backend of scaled_dot_product_attention: `auto` (torch's choice), `math`, `flash`, ..."""
    optimizer: str = "fused"
    """Implementation of Adam: `fused` (where torch has it), `foreach` or `loop`."""
    threads: int | None = None
    """Intra-op threads; None: the workload's own on a CPU, else torch's."""
    recompute: str = NONE
    """What backward computes again in place of keeping it: `none`, `norm`, `gelu`, `norm,gelu`."""
    cuda_graphs: bool = False
    """Whether forward, backward and optimizer are recorded as CUDA graphs and replayed."""

    def check(self) -> None:
        """Raise UsageError for a value that no device has."""
        for option, value, known in (
            ("autocast", self.autocast, AUTOCASTS),
            ("attention", self.attention, ATTENTIONS),
            ("optimizer", self.optimizer, OPTIMIZERS),
        ):
            if value not in known:
                raise UsageError(f"--{option} is {value!r}: one of {', '.join(known)} it must be")
        if self.recompute != recomputed(self.recomputes):  # an unknown name is left out
            raise UsageError(
                f"--recompute is {self.recompute!r}: {NONE}, or any of {', '.join(RECOMPUTABLE)}"
            )
        if self.recomputes and self.compile:
            raise UsageError(
                "--recompute with --compile: the compiler itself decides what it keeps"
            )
        if self.cuda_graphs and self.autocast == "fp16":
            raise UsageError("--cuda-graphs with --autocast fp16: a scaled loss is not recorded")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads {self.threads}: a run needs at least 1 thread")

    @property
    def recomputes(self) -> frozenset[str]:
        """What `recompute` names."""
        return frozenset(self.recompute.split(",")) - {NONE}

    def on(self, workload: Workload, device: str) -> "Execution":
        """What it comes to on a workload and a kind of device: equal requests become equal."""
        threads = self.threads
        if threads is None and device == "cpu":
            threads = workload.cpu_threads
        tf32 = None if self.tf32 == workload.recipe.tf32 else self.tf32
        return replace(self, threads=threads, tf32=tf32)

    def beside(self, usual: "Execution") -> str:
        """For people, what differs from the usual: `autocast bf16, compile on`; may be empty."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        unusual = {name: v for name, v in values.items() if v != getattr(usual, name)}
        return ", ".join(
            f"{name.replace('_', ' ')} {_text(value)}" for name, value in unusual.items()
        )


DEFAULT = Execution()


def recomputed(names: Iterable[str]) -> str:
    """These names as `recompute` has them: equal requests are equal, whatever their order."""
    return ",".join(name for name in RECOMPUTABLE if name in names) or NONE


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
