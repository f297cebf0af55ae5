"""What a prediction is for: a kind of device, and the peaks of a card. No torch."""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.capability import refuse_by_rule
from bench.errors import UsageError
from bench.execution import Execution
from bench.measure.devices import KINDS
from bench.predict.cards import Card, find_card

_CPU = "cpu"


@dataclass(frozen=True)
class Target:
    kind: str
    """`cpu` or `cuda`."""
    card: Card | None
    """Its peaks; None where nobody named them, as a CPU's: then there is no step time."""

    @property
    def name(self) -> str:
        return self.card.name if self.card else self.kind

    def check(self, execution: Execution) -> None:
        """Raise UsageError for what it cannot do, or what cannot be predicted."""
        if execution.compile:
            raise UsageError("--compile: what a compiler fuses cannot be predicted from operators")
        refuse_by_rule(execution, self.kind, self.name)
        if self.kind == _CPU or self.card is None:
            return
        if execution.tf32 and self.card.tf32_tflops is None:
            raise UsageError(f"--tf32: there is no TF32 on {self.name}")
        if execution.autocast == "bf16" and self.card.bf16_tflops is None:
            raise UsageError(f"--autocast bf16: there is no bf16 on {self.name}")


def find_target(device: str, gpu: str | None, added: Iterable[Card] = ()) -> Target:
    """The target that `--device` and `--gpu` name; neither need be here.

    Args:
        added: cards of the user's own; one named `cpu` has the peaks of the CPU.

    Raises:
        UsageError: a card without figures, or a device whose steps cannot be predicted.
    """
    cards = tuple(added)
    if device not in KINDS:
        raise UsageError(f"unknown device {device!r}; known: {', '.join(KINDS)}")
    if device == "mps":
        raise UsageError("--device mps: its operators differ, and nothing here knows how")
    if gpu is not None:
        if device == _CPU:
            raise UsageError(f"--gpu {gpu!r} needs --device cuda or auto, not 'cpu'")
        return Target("cuda", find_card(gpu, cards))
    if device == "cuda":
        raise UsageError("--device cuda: say which GPU to predict for, e.g. --gpu H200")
    mine = [card for card in cards if card.name.lower() == _CPU]
    return Target(_CPU, mine[0] if mine else None)
