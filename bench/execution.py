"""How a run's arithmetic is carried out: what contenders must share to be compared. No torch."""

from dataclasses import dataclass, fields, replace

from bench.errors import UsageError
from bench.workloads.registry import Workload

AUTOCASTS = ("none", "bf16", "fp16")
ATTENTIONS = ("auto", "math", "flash", "efficient", "cudnn")
OPTIMIZERS = ("fused", "foreach", "loop")


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
    """Whether the model is compiled by torch.compile."""
    attention: str = "auto"
    """Backend of scaled_dot_product_attention: `auto` (torch's choice), `math`, `flash`, ..."""
    optimizer: str = "fused"
    """Implementation of Adam: `fused` (where torch has it), `foreach` or `loop`."""
    threads: int | None = None
    """Intra-op threads; None: the workload's own on a CPU, else torch's."""
    pad_channels: int = 1
    """Multiple that physical FFN widths are rounded up to, by channels of zeros; 1: exact ones."""

    def check(self) -> None:
        """Raise UsageError for a value that no device has."""
        for option, value, known in (
            ("autocast", self.autocast, AUTOCASTS),
            ("attention", self.attention, ATTENTIONS),
            ("optimizer", self.optimizer, OPTIMIZERS),
        ):
            if value not in known:
                raise UsageError(f"--{option} is {value!r}: one of {', '.join(known)} it must be")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads {self.threads}: a run needs at least 1 thread")
        if self.pad_channels < 1:
            raise UsageError(f"--pad-channels {self.pad_channels}: 1 (none) or more it must be")

    def check_for(self, workload: Workload) -> None:
        """Raise UsageError for what a workload's model cannot have: full-size tensors, of dense
        and masked contenders, are to be such multiples as they are."""
        channels = workload.shape.blocks.channels
        if channels % self.pad_channels:
            raise UsageError(
                f"--pad-channels {self.pad_channels}: it must divide the {channels} FFN channels"
                f" of {workload.name}"
            )

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


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
