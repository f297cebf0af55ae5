"""What a gate measures and a baseline stores: ratios to the frozen loop, exact counts. No torch.

A launch gives one number per contender: the mean over rounds of the logarithm of its mean step over
the frozen loop's in the same round. Launches are independent, rounds of one are not.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.files import write_json_atomically

VERSION = 1
"""Of the file; a newer one is refused."""
COUNTS = (
    "training_macs",
    "dispatched_operators",
    "host_synchronisations",
    "peak_allocated_bytes",
)
"""Gated exactly, for every kind of step."""


@dataclass(frozen=True)
class Conditions:
    """What has to agree for times to be compared."""

    workload: str
    batch_size: int
    device_name: str
    threads: int
    torch_version: str
    precision: str
    """float32, or tf32 where matrix products may use it."""
    bare_version: int
    """Of the frozen loop."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Conditions":
        """From a row of the runs table."""
        return cls(
            workload=str(row["workload"]),
            batch_size=int(row["batch_size"]),
            device_name=str(row["device_name"]),
            threads=int(row["threads"]),
            torch_version=str(row["torch_version"]),
            precision="tf32" if row["tf32"] else "float32",
            bare_version=int(row["bare_version"]),
        )

    def differences(self, other: "Conditions") -> list[str]:
        mine, theirs = asdict(self), asdict(other)
        return [f"{k} {theirs[k]} there, {mine[k]} here" for k in mine if mine[k] != theirs[k]]


@dataclass(frozen=True)
class Gauged:
    """One contender."""

    method: str
    density: float
    log_ratios: tuple[float, ...]
    """One per launch: mean log of its step time over the frozen loop's."""
    counts: Mapping[str, Mapping[str, int]]
    """Segment -> name of the count -> value."""
    stored_parameters: int


@dataclass(frozen=True)
class Measurement:
    conditions: Conditions
    contenders: Mapping[str, Gauged]
    """By label, e.g. `barter at 0.3`; dense among them."""
    again: tuple[float, ...]
    """One per launch: the frozen loop over itself (A/A)."""
    git_commit: str | None = None

    def save(self, path: Path) -> None:
        """Raises UsageError if the file cannot be written."""
        write_json_atomically(path, {"version": VERSION, **asdict(self)})


def load(path: Path) -> Measurement:
    """A stored baseline.

    Raises:
        UsageError: the file is missing, damaged, of a newer version, or without the frozen loop.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read baseline {path} ({error.strerror}): `bench check --update` writes one"
        ) from error
    except ValueError as error:
        raise UsageError(f"baseline {path} is damaged or no baseline: not valid JSON") from error
    if not isinstance(data, dict) or "version" not in data:
        raise UsageError(f"{path} is no baseline: `bench check --update` writes one")
    if not isinstance(data["version"], int) or data["version"] > VERSION:
        raise UsageError(
            f"baseline {path} has version {data['version']}; this program reads up to {VERSION}"
        )
    try:
        read = Measurement(
            Conditions(**data["conditions"]),
            {label: _gauged(entry) for label, entry in data["contenders"].items()},
            tuple(map(float, data["again"])),
            data.get("git_commit"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"baseline {path} is incomplete or damaged: {error!r}") from error
    if not read.again or not all(entry.log_ratios for entry in read.contenders.values()):
        raise UsageError(f"baseline {path} holds no time of the frozen loop: make a new one")
    return read


def _gauged(entry: Any) -> Gauged:
    counts = {s: {k: int(v) for k, v in kinds.items()} for s, kinds in entry["counts"].items()}
    return Gauged(
        str(entry["method"]),
        float(entry["density"]),
        tuple(map(float, entry["log_ratios"])),
        counts,
        int(entry["stored_parameters"]),
    )
