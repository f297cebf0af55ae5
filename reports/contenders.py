"""Which runs may be averaged (a contender) and which contenders may be compared (a setting)."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from bench.schema import EXECUTION_DEFAULTS
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
    *EXECUTION_DEFAULTS,
    "total_steps",
    "synthetic_data",
)
"""Runs that differ in one of these are never averaged and never compared."""

_FIRST = ("dense", "static", "barter")
CHANGED = "changed_options"
"""Configuration key: the hyperparameters that are not the method's defaults. Told, not compared."""

_IDENTITY = {*COMPARABLE, "run_id", "study", "method", "density", "realisation", CHANGED}
_PER_RUN = {
    *("seed", "seeds", "replicate", "launch", "steps"),
    *("checkpoint", "initial_checkpoint", "folder"),  # of the run that a run starts from
}
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
    variant: str  # its hyperparameters that are not the method's defaults; mostly empty
    valid: bool
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """The same at every density: what colours and lines stand for."""
        return f"{self.method} [{self.variant}]" if self.variant else self.method

    @property
    def label(self) -> str:
        return self.name if self.valid else f"{self.name} ({NO_UPDATE})"

    @property
    def name_with_density(self) -> str:
        name = f"{self.method} {density_text(self.density)}"
        return f"{name} [{self.variant}]" if self.variant else name

    @property
    def label_with_density(self) -> str:
        name = self.name_with_density
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
    """Contenders of the shown runs, ordered by setting, method, density, variant."""
    namesakes: dict[tuple[Setting, str], list[Run]] = defaultdict(list)
    for run in runs:
        namesakes[setting_of(run), run["method"]].append(run)
    members: dict[tuple[Setting, str, float, str, bool], list[Run]] = defaultdict(list)
    for (setting, method), alike in namesakes.items():
        for run, variant in zip(alike, _variants(alike), strict=True):
            valid = run.standing is Standing.USED
            members[setting, method, run["density"], variant, valid].append(run)
    contenders = [Contender(*key, tuple(same)) for key, same in members.items()]
    return sorted(contenders, key=_order)


def setting_of(run: Run) -> Setting:
    return Setting(tuple(run[column] for column in COMPARABLE))


def run_name(run: Run) -> str:
    """The method, with its hyperparameters that are not defaults."""
    changed = _changed(run)
    return f"{run['method']} [{changed}]" if changed else run["method"]


def _variants(runs: list[Run]) -> list[str]:
    """For each run of one method its hyperparameters that are not defaults; where that does not
    tell all configurations apart (other recipes, older records), everything in which they differ.
    """
    identities = [_identity(run) for run in runs]
    keys = dict.fromkeys(key for identity in identities for key in identity)
    differing = [key for key in keys if len({identity.get(key) for identity in identities}) > 1]
    apart = [tuple(identity.get(key, "absent") for key in differing) for identity in identities]
    changed = [_changed(run) for run in runs]
    pairs = set(zip(apart, changed, strict=True))
    if len(pairs) == len(set(apart)) == len(set(changed)):
        return changed
    return [
        ", ".join(_setting_text(k, v) for k, v in zip(differing, values, strict=True))
        for values in apart
    ]


def _changed(run: Run) -> str:
    names = json.loads(run.config.get(CHANGED, "[]"))
    return ", ".join(_setting_text(name, run.config[f"config.{name}"]) for name in names)


def _setting_text(key: str, value: str) -> str:
    """`interval=4`: a method's or a recipe's own value needs no prefix, a whole number no `.0`, a
    product of decimals not its last digits."""
    shown = re.sub(r"^(-?\d+)\.0$", r"\1", value)
    shown = re.sub(r"^-?\d+\.\d{9,}$", lambda found: f"{float(found[0]):.6g}", shown)
    return f"{key.removeprefix('config.').removeprefix('recipe.')}={shown}"


def _order(contender: Contender) -> tuple[Any, ...]:
    setting = tuple(str(value) for value in contender.setting.values)
    method = method_order(contender.method)
    return setting, method, contender.density, contender.variant, not contender.valid


def _identity(run: Run) -> dict[str, str]:
    """Everything that tells configurations of one setting and method apart."""
    return {"realisation": str(run["realisation"]), **configured(run)}


def configured(run: Run) -> dict[str, str]:
    """Everything configured except what a group has in common or what may differ within it."""
    return {
        key: value
        for key, value in run.config.items()
        if (last := key.rsplit(".", 1)[-1]) not in _PER_RUN and last not in _IDENTITY
    }
