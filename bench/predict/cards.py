"""Which GPUs a step time can be predicted for, and what each can do at most. No torch.

Peaks are those of the vendor's data sheets, without structured sparsity. Kernels do not reach them:
a time from here says how far a step could go, and is no forecast of a stop watch.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.measure.devices import is_model

TERA, GIGA = 10**12, 10**9

_REQUIRED = ("fp32_tflops", "bandwidth_gb_per_s", "memory_gb", "source")
_OPTIONAL = ("tf32_tflops", "bf16_tflops", "fp16_tflops")


@dataclass(frozen=True)
class Card:
    """Peaks of one model of GPU; half precision is added up in float32."""

    name: str
    fp32_tflops: float
    bandwidth_gb_per_s: float
    """Of its memory, in 10^9 bytes per second."""
    memory_gb: float
    """As the data sheet says, 10^9 bytes."""
    source: str
    """Where the figures come from."""
    tf32_tflops: float | None = None
    """Of matrix products in TF32; None: it has none, and computes them in float32."""
    bf16_tflops: float | None = None
    """The same in bf16; None: it has none."""
    fp16_tflops: float | None = None
    """The same in fp16; None: as in bf16."""

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gb * GIGA)

    def seconds_of_flops(self, flops: float, precision: str) -> float:
        """Arithmetic time of matrix products.

        Args:
            precision: `fp32`, `tf32`, `bf16` or `fp16`. What the card has no units for runs in
                float32.
        """
        peaks = {
            "tf32": self.tf32_tflops,
            "bf16": self.bf16_tflops,
            "fp16": self.fp16_tflops or self.bf16_tflops,
        }
        return flops / ((peaks.get(precision) or self.fp32_tflops) * TERA)

    def seconds_of_traffic(self, moved_bytes: float) -> float:
        return moved_bytes / (self.bandwidth_gb_per_s * GIGA)


_HOPPER = "NVIDIA H100 architecture white paper, dense rates"
_PAPER = "NVIDIA {} architecture white paper, dense rates"
_SHEET = "NVIDIA {} data sheet, dense rates"


def _card(
    name: str,
    rates: tuple[float | None, ...],
    bandwidth: float,
    memory: float,
    source: str,
) -> Card:
    fp32, *matrices = rates
    assert fp32 is not None
    return Card(name, fp32, bandwidth, memory, source, *matrices)


CARDS = (
    # The first of a model is meant where its build is not said.
    _card("H200 SXM5 141GB HBM3e", (66.9, 494.7, 989.4), 4800, 141, f"{_HOPPER}; H200 data sheet"),
    _card("H100 SXM5 80GB HBM3", (66.9, 494.7, 989.4), 3350, 80, f"{_HOPPER}; H100 data sheet"),
    _card("H100 PCIe 80GB", (51.2, 378, 756), 2000, 80, f"{_HOPPER}; H100 data sheet"),
    _card("A100 SXM4 80GB", (19.5, 156, 312), 2039, 80, _SHEET.format("A100")),
    _card("A100 SXM4 40GB", (19.5, 156, 312), 1555, 40, _SHEET.format("A100")),
    _card("A100 PCIe 80GB", (19.5, 156, 312), 1935, 80, _SHEET.format("A100")),
    _card("A100 PCIe 40GB", (19.5, 156, 312), 1555, 40, _SHEET.format("A100")),
    _card("L40", (90.5, 90.5, 181.05), 864, 48, _SHEET.format("L40")),
    _card("L40S", (91.6, 183, 362.05), 864, 48, _SHEET.format("L40S")),
    _card("L4", (30.3, 60, 121), 300, 24, _SHEET.format("L4")),
    _card("A40", (37.4, 74.8, 149.7), 696, 48, _SHEET.format("A40")),
    _card("A10", (31.2, 62.5, 125), 600, 24, _SHEET.format("A10")),
    _card("GeForce RTX 4090", (82.6, 82.6, 165.2), 1008, 24, _PAPER.format("Ada")),
    _card("GeForce RTX 3090", (35.6, 35.6, 71), 936, 24, _PAPER.format("GA102")),
    _card("Tesla V100 SXM2 32GB", (15.7, None, None, 125), 900, 32, _SHEET.format("V100")),
    _card("Tesla T4", (8.1, None, None, 65), 320, 16, _SHEET.format("T4")),
)


def find_card(name: str, added: Iterable[Card] = ()) -> Card:
    """The card of that model: one of those `added`, which go first, or of the table.

    Raises:
        UsageError: there is none; the message says how to add it.
    """
    known = (*added, *CARDS)
    for card in known:
        if card.name.lower() == name.strip().lower():
            return card
    for card in known:
        if is_model(card.name, name):
            return card
    names = ", ".join(dict.fromkeys(card.name for card in known))
    raise UsageError(
        f"--gpu {name}: no figures for it; known are {names}. Add it to the study file, or to a"
        f' file for --cards: [cards."{name}"] with {", ".join(_REQUIRED)};'
        f" {' and '.join(_OPTIONAL)} where it has them"
    )


def read_cards(tables: Any, where: str) -> tuple[Card, ...]:
    """The cards of a TOML table [cards.NAME].

    Raises:
        UsageError: an unknown or missing key, or a figure that is no number above 0.
    """
    if not isinstance(tables, Mapping):
        raise UsageError(f"{where}: cards takes one table per card, e.g. [cards.B200]")
    return tuple(
        _read_card(name, table, f"{where}: cards.{name}") for name, table in tables.items()
    )


def cards_of_file(file: Path) -> tuple[Card, ...]:
    """The cards of a TOML file, whose other keys are not looked at.

    Raises:
        UsageError: as `read_cards`, or the file has none or cannot be read.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read cards of {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from error
    if "cards" not in content:
        raise UsageError(f"{file}: no table [cards.NAME] in it")
    return read_cards(content["cards"], f"{file}")


def _read_card(name: str, table: Any, where: str) -> Card:
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: a table it must be")
    known = (*_REQUIRED, *_OPTIONAL)
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}; there are {', '.join(known)}")
        if key == "source":
            if not isinstance(value, str) or not value.strip():
                raise UsageError(f"{where}: {key} takes a text, not {value!r}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{where}: {key} takes a number, not {value!r}")
        elif not (isfinite(value) and value > 0):
            raise UsageError(f"{where}: {key} is {value}: a number above 0 it must be")
    missing = [key for key in _REQUIRED if key not in table]
    if missing:
        raise UsageError(f"{where}: {', '.join(missing)} missing")
    return Card(name, **table)
