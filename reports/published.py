"""What the paper published, as far as the project's specification has it: figures that stand
beside ours, in columns of their own, and nothing that any of ours is computed from.

A figure is for one workload: models of other sizes have none. Densities are keys as recorded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reports.table import Shown

EQUAL, MATCHED = "equal epochs", "matched compute"
"""Phases of fine-tuning: after as many epochs as dense, and after as much compute."""

CCT, VIT = "CCT", "ViT"
MODEL_OF = {"cct-cifar100": CCT, "vit-tiny-imagenet": VIT, "vit-cifar100-finetune": VIT}
"""Workload -> model, of the workloads that the paper has."""
GPU = "NVIDIA L40"


@dataclass(frozen=True)
class Published:
    """One figure, or the range that is all that was published (`low` and `high` differ)."""

    low: float
    high: float
    unit: str
    setting: str
    """Model, data set and, where it matters, GPU."""
    section: str
    """Of the specification."""
    derived: bool = False
    """Follows from other published figures; the text itself does not give it."""

    def text(self, sign: bool = False) -> str:
        form = "+g" if sign else "g"
        ends = dict.fromkeys((f"{self.low:{form}}", f"{self.high:{form}}"))
        return " to ".join(ends) + " (derived)" * self.derived

    def negated(self) -> "Published":
        """Of the opposite difference."""
        return Published(-self.high, -self.low, self.unit, self.setting, self.section, self.derived)


def cell(value: Published | None, sign: bool = False) -> Shown | str | None:
    """For a table: a figure is a number in CSV, a range is text there too."""
    if value is None:
        return None
    text = value.text(sign)
    return Shown(text, value.low) if value.low == value.high else text


def note(values: Iterable[Published | None], otherwise: str) -> str:
    """In which settings what a table shows was published; `otherwise` if it shows none."""
    shown = [value for value in values if value is not None]
    settings = dict.fromkeys(f"{v.setting} (specification, section {v.section})" for v in shown)
    if not settings:
        return f"No published figure stands here: {otherwise}."
    derived = any(value.derived for value in shown)
    words = " Derived: follows from other published figures." if derived else ""
    return f"Published: {'; '.join(settings)}.{words}"


OTHER_MODEL = "what was published is of other models and data than these"

# ------------------------------------------------------------ budgets and transfers


@dataclass(frozen=True)
class Budget:
    """Active units of the compact model, and transfers of one run at 1x."""

    heads: Published
    channels: Published
    head_transfers: Published
    channel_transfers: Published


def _budget(model: str, density: float, counts: tuple[int, ...], published: str) -> Budget:
    """`published`: p for each count that the text gives, d for one that is derived."""
    units = ("heads", "channels", "transfers", "transfers")
    setting = f"{model} at full size, 1x transfers"
    return Budget(
        *(
            Published(count, count, unit, setting, "5", derived=mark == "d")
            for count, unit, mark in zip(counts, units, published, strict=True)
        )
    )


BUDGETS: Mapping[tuple[str, float], Budget] = {
    (CCT, 0.1): _budget(CCT, 0.1, (11, 371, 1, 21), "dddd"),
    (CCT, 0.3): _budget(CCT, 0.3, (34, 1067, 2, 60), "pppp"),
    (CCT, 0.5): _budget(CCT, 0.5, (56, 1795, 3, 101), "dddd"),
    (CCT, 0.7): _budget(CCT, 0.7, (78, 2523, 5, 142), "dddp"),
    (VIT, 0.1): _budget(VIT, 0.1, (11, 359, 1, 20), "dddp"),
    (VIT, 0.3): _budget(VIT, 0.3, (33, 1033, 2, 58), "dddd"),
    (VIT, 0.5): _budget(VIT, 0.5, (54, 1739, 3, 98), "dddd"),
    (VIT, 0.7): _budget(VIT, 0.7, (76, 2413, 4, 136), "dddd"),
}
"""Model and density -> budget. The formula that the derived ones follow from reproduces all that
was published."""


def budget(workload: str, density: float) -> Budget | None:
    return BUDGETS.get((MODEL_OF.get(workload, ""), density))


# ------------------------------------------------------------------------- accuracy


def _points(low: float, high: float, setting: str, derived: bool = False) -> Published:
    return Published(low, high, "points", setting, "10", derived)


OVER_STATIC: Mapping[str, Published] = {
    "cct-cifar100": _points(0.27, 2.97, "CCT on CIFAR-100, over all densities"),
    "vit-tiny-imagenet": _points(0.34, 0.63, "ViT on Tiny-ImageNet, over all densities"),
}
"""Workload -> top-1 of BARTER minus Static."""

FINETUNED_WORKLOAD = "vit-cifar100-finetune"
_FINETUNED = "ViT from its dense Tiny-ImageNet checkpoint, fine-tuned on CIFAR-100 for 100 epochs"
_CONTINUED = f"{_FINETUNED}, BARTER then to the dense run's compute"


def _percent(value: float, phase: str, derived: bool = False) -> Published:
    setting = _CONTINUED if phase == MATCHED else _FINETUNED
    return Published(value, value, "%", setting, "10", derived)


FINETUNED_TOP1: Mapping[tuple[str, float, str], Published] = {
    ("barter", 0.1, EQUAL): _percent(61.21, EQUAL),
    ("barter", 0.3, EQUAL): _percent(69.02, EQUAL),
    ("barter", 0.1, MATCHED): _percent(65.65, MATCHED),
    ("barter", 0.3, MATCHED): _percent(70.39, MATCHED),
    ("rigl", 0.1, EQUAL): _percent(63.19, EQUAL, derived=True),
    ("rigl", 0.3, EQUAL): _percent(68.38, EQUAL, derived=True),
}
"""Method, density and phase -> top-1."""
FINETUNED_F1: Mapping[tuple[str, float, str], Published] = {
    ("barter", 0.3, EQUAL): _percent(68.81, EQUAL),
    ("barter", 0.1, MATCHED): _percent(65.33, MATCHED),
    ("barter", 0.3, MATCHED): _percent(70.18, MATCHED),
}
"""Likewise, macro-F1."""
OVER_RIGL: Mapping[tuple[str, float, str], Published] = {
    ("barter", 0.1, EQUAL): _points(-1.98, -1.98, _FINETUNED, derived=True),
    ("barter", 0.3, EQUAL): _points(0.64, 0.64, _FINETUNED, derived=True),
    ("barter", 0.1, MATCHED): _points(2.46, 2.46, _CONTINUED),
    ("barter", 0.3, MATCHED): _points(2.01, 2.01, _CONTINUED),
}
"""Likewise, top-1 minus RigL's after equal epochs."""

# ----------------------------------------------------------------------------- time

STEP_TIME_DENSITY = 0.5


def _time(model: str, value: float, unit: str) -> Published:
    setting = f"{model}, density {STEP_TIME_DENSITY}, {GPU}"
    return Published(value, value, unit, setting, "10")


STEP_MS: Mapping[tuple[str, str], Published] = {
    (CCT, "barter"): _time(CCT, 105.94, "ms"),
    (CCT, "rigl"): _time(CCT, 196.59, "ms"),
    (VIT, "barter"): _time(VIT, 23.19, "ms"),
    (VIT, "rigl"): _time(VIT, 41.23, "ms"),
}
"""Model and method -> step-time estimate at density 0.5."""
SPEEDUP_OVER_RIGL: Mapping[str, Published] = {
    CCT: _time(CCT, 1.86, "x"),
    VIT: _time(VIT, 1.78, "x"),
}
"""Model -> BARTER's at density 0.5."""
LARGEST_SPEEDUP = Published(6.29, 6.29, "x", f"the largest of all, {GPU}", "10")
"""Of the measured training segment over full-tensor methods; which one is not said."""
LARGEST_MEMORY_REDUCTION = Published(81.3, 81.3, "%", f"the largest of all, {GPU}", "10")
"""Of peak allocated memory; likewise."""

TRANSFERS_WORKLOAD = "vit-tiny-imagenet"
"""Inferred: the published study has its 105,400 steps."""
TRANSFER_MULTIPLIERS = (1, 6)


def _transfers(low: float, high: float, unit: str) -> Published:
    setting = "range over 1x to 6x of a run of 105,400 steps (so the ViT on Tiny-ImageNet)"
    return Published(low, high, unit, setting, "10")


UPDATE_MS_PER_STEP = _transfers(0.019, 0.117, "ms")
UPDATE_S_PER_RUN = _transfers(1.989, 12.321, "s")
TRANSFERS_TOP1 = _transfers(52.77, 53.49, "%")
TRANSFERS_F1 = _transfers(52.34, 53.11, "%")

# --------------------------------------------------------------------------- recipe

DERIVED_SETTINGS: Mapping[str, frozenset[str]] = {
    "vit-tiny-imagenet": frozenset({"batch_size"}),
    "vit-cifar100-finetune": frozenset({"batch_size"}),
}
"""Workload -> recipe values that follow from published ones (1054 steps an epoch)."""
