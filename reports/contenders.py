"""Which runs may be averaged (a contender) and which contenders may be compared (a setting)."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from reports.load import NO_UPDATE, Run, Standing

COMPARABLE = (
    "workload",
    "device",
    "device_name",
    "threads",
    "batch_size",
    "torch_version",
    "driver",
    "tf32",
    "total_steps",
    "synthetic_data",
)
"""Runs that differ in one of these are never averaged and never compared."""

_FIRST = ("dense", "static", "barter")
_IDENTITY = {*COMPARABLE, "run_id", "study", "method", "density", "realisation"}
_PER_RUN = {"seed", "seeds", "replicate", "launch", "checkpoint", "initial_checkpoint", "steps"}
"""Configuration keys (last part) that may differ between runs that are averaged."""


@dataclass(frozen=True)
class Setting:
    """What contenders must share to be compared; values in the order of COMPARABLE."""

    values: tuple[Any, ...]

    def __getitem__(self, column: str) -> Any:
        return self.values[COMPARABLE.index(column)]

    def difference(self, other: "Setting") -> list[str]:
        """The columns in which two settings differ."""
        pairs = zip(COMPARABLE, self.values, other.values, strict=True)
        return [column for column, mine, theirs in pairs if mine != theirs]

    @property
    def slug(self) -> str:
        """For file names; unique only together with an index."""
        return _slug(str(self["workload"]))


@dataclass(frozen=True)
class Contender:
    """Runs of one method and density that differ in nothing but their seed."""

    setting: Setting
    method: str
    density: float
    variant: str  # what tells it from its namesakes; mostly empty
    valid: bool
    runs: tuple[Run, ...]

    @property
    def label(self) -> str:
        name = f"{self.method} [{self.variant}]" if self.variant else self.method
        return name if self.valid else f"{name} ({NO_UPDATE})"

    @property
    def label_with_density(self) -> str:
        name = f"{self.method} {density_text(self.density)}"
        name = f"{name} [{self.variant}]" if self.variant else name
        return name if self.valid else f"{name} ({NO_UPDATE})"

    @property
    def slug(self) -> str:
        """For file names; unique only together with an index."""
        return _slug(f"{self.method}-{density_text(self.density)}")

    @property
    def seeds(self) -> list[int]:
        return sorted({run["seed"] for run in self.runs})

    @property
    def first_run(self) -> Run:
        """The run with the lowest seed."""
        return min(self.runs, key=lambda run: (run["seed"], run["run_id"]))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-") or "unnamed"


def density_text(density: float | None) -> str:
    """1 -> `1.0`, 0.3 -> `0.3`, 0.05 -> `0.05`."""
    if density is None:
        return ""
    return f"{density:.1f}" if density == round(density, 1) else f"{density:g}"


def method_order(method: str) -> tuple[int, str]:
    """dense, static, barter, then the others by name (variants of barter first)."""
    if method in _FIRST:
        return _FIRST.index(method), method
    return (len(_FIRST) if method.startswith("barter") else len(_FIRST) + 1), method


def group(runs: list[Run]) -> list[Contender]:
    """Contenders of the shown runs, ordered by setting, method, density."""
    groups: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        setting = Setting(tuple(run[column] for column in COMPARABLE))
        groups[setting, run["method"], run["density"]].append(run)
    contenders = []
    for (setting, method, density), namesakes in groups.items():
        differing = _differing(namesakes)
        parts: dict[tuple[bool, tuple[str, ...]], list[Run]] = defaultdict(list)
        for run in namesakes:
            variant = tuple(_identity(run).get(key, "absent") for key in differing)
            parts[run.standing is Standing.USED, variant].append(run)
        for (valid, variant), members in parts.items():
            named = ", ".join(f"{k}={v}" for k, v in zip(differing, variant, strict=True))
            contenders.append(Contender(setting, method, density, named, valid, tuple(members)))
    return sorted(contenders, key=_order)


def _order(contender: Contender) -> tuple[Any, ...]:
    setting = tuple(str(value) for value in contender.setting.values)
    method = method_order(contender.method)
    return setting, method, contender.density, contender.variant, not contender.valid


def _identity(run: Run) -> dict[str, str]:
    """Everything configured except what the group has in common or what may differ."""
    config = {
        key: value
        for key, value in run.config.items()
        if (last := key.rsplit(".", 1)[-1]) not in _PER_RUN and last not in _IDENTITY
    }
    return {"realisation": str(run["realisation"]), **config}


def _differing(runs: list[Run]) -> list[str]:
    identities = [_identity(run) for run in runs]
    keys = dict.fromkeys(key for identity in identities for key in identity)
    return [key for key in keys if len({identity.get(key) for identity in identities}) > 1]
