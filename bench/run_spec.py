"""One run: everything that decides its result, and its identity. No torch."""

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

from bench.contender_label import label_text
from bench.datasets.location import Stored
from bench.execution import DEFAULT, Execution
from bench.method_options import changed_options
from bench.method_registry import get_method
from bench.modes import TRAIN
from bench.start import CONTINUE, Start
from bench.workloads.recipes import Recipe
from bench.workloads.registry import get_workload
from methods.config import Config


@dataclass(frozen=True)
class RunSpec:
    """One run: everything that decides its result, and nothing else."""

    workload: str
    method: str
    density: float
    seed: int
    total_steps: int
    batch_size: int
    device: str
    """`cpu`, `cuda` or `mps`."""
    recipe: Recipe
    config: Config
    gpu: str | None = None
    """Model of the GPU; None on other devices."""
    execution: Execution = DEFAULT
    """With the workload's own choices filled in."""
    mode: str = TRAIN
    """`train`, or `time`: blocks of its schedule, side by side with the study's other runs."""
    dataset: str | None = None
    """Name and content of the data set that batches come from; None is what needs none: digits, or
    synthetic batches."""
    start: Start | None = None
    """The run that it starts from; None is from scratch."""
    stored: Stored | None = field(default=None, compare=False)
    """Where that data set lies on this machine; no part of the run's identity."""

    @property
    def run_id(self) -> str:
        """Content hash: equal for equal requests, whatever the order of their options."""
        content = identity(self)
        # Beside the other fields, where threads stood before there were further options.
        content |= content.pop("execution", {})
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """Full configuration, defaults included, and which options are not the defaults."""
        changed = [name for name, _ in self._changed]
        # Where files lie on this machine says nothing elsewhere.
        start = replace(self.start, folder="") if self.start else None
        settings = asdict(replace(self, start=start)) | {"changed_options": changed}
        del settings["stored"]
        return json.dumps(settings, sort_keys=True, default=sorted)

    @property
    def continued(self) -> Start | None:
        """The run that it continues, with a topology that stays as it is."""
        return self.start if self.start and self.start.kind == CONTINUE else None

    @property
    def steps_before(self) -> int:
        """Steps that its model and its method have behind them when it starts."""
        return self.continued.steps if self.continued else 0

    @property
    def tf32(self) -> bool:
        """Whether matrix products may run in TF32."""
        return self.recipe.tf32 if self.execution.tf32 is None else self.execution.tf32

    @property
    def contender(self) -> str:
        """The method, with those of its hyperparameters that are not its defaults here."""
        return label_text(self.method, self._changed)

    @property
    def title(self) -> str:
        """For people: what distinguishes this run within its study."""
        density = "" if self.density == 1 else f" at {self.density:g}"
        rate = self.recipe.learning_rate
        usual = rate == get_workload(self.workload).recipe.learning_rate
        marks = [] if usual else [f"learning rate {rate:g}"]
        marks += [self.unusual] if self.unusual else []
        return f"{self.contender}{density}, seed {self.seed}" + "".join(f" ({m})" for m in marks)

    @property
    def unusual(self) -> str:
        """For people: how it is executed, where that was asked for; mostly empty."""
        return self.execution.beside(DEFAULT.on(get_workload(self.workload), self.device))

    @property
    def _changed(self) -> tuple[tuple[str, Any], ...]:
        return changed_options(get_method(self.method), self.config, get_workload(self.workload))


def identity(value: Any) -> Any:
    """`value` as plain JSON that hashes to its identity.

    A field that equals its default is left out. So a new hyperparameter whose default means "no
    effect" leaves old runs their identity. Fields that do not compare (notes) never count.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: identity(getattr(value, f.name))
            for f in fields(value)
            if f.compare and getattr(value, f.name) != _default(f)
        }
    if isinstance(value, tuple | list):
        return [identity(item) for item in value]
    return value


def _default(f: Any) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default
