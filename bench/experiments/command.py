"""`bench run --experiment NAME`: its stages, one after the other. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.execution import Execution
from bench.experiments.catalog import SEARCH, Stage, family, stages_of
from bench.experiments.planned import Planned, show
from bench.experiments.rates import chosen_rates, with_variants
from bench.experiments.scales import SMALL, Scale, get_scale
from bench.files import write_json_atomically
from bench.modes import TIME
from bench.run_command import Manner, results_option, run_asked
from bench.spec import StudySpec
from bench.store import StudyStore
from bench.study_file import KEYS, data_needed
from bench.wording import say

OWN = ("methods", "workload", "mode", "learning_rate", "init_from", "continue_from")
"""Options that an experiment leaves to nobody."""


def experiment_command(
    name: str | None,
    scale: str | None,
    file: Path | None,
    given: Mapping[str, Any],
    manner: Manner,
) -> int:
    """Run an experiment's stages; what is finished is kept.

    Args:
        given: options of the command line; `name` begins the names of all its studies.

    Returns:
        The exit code: 0, or 1 if a run failed.

    Raises:
        UsageError: an unknown name or scale, or an option that the experiment decides itself.
    """
    if name is None:
        raise UsageError("--scale: an option of --experiment alone")
    stages, at = stages_of(name), get_scale(scale or SMALL.name)
    taken = [f"--{key.replace('_', '-')}" for key in OWN if given.get(key) is not None]
    if file or taken:
        what = str(file) if file else taken[0]
        raise UsageError(f"experiment {name} decides that itself: leave out {what}")
    return _Experiment(stages, at, given, manner).run()


class _Experiment:
    """Stages at a scale, with what the command line replaces in them."""

    def __init__(
        self, stages: Sequence[Stage], scale: Scale, given: Mapping[str, Any], manner: Manner
    ) -> None:
        self._stages, self._scale, self._manner = stages, scale, manner
        self._prefix = given.get("name")
        self._over = _read(given)

    def run(self) -> int:
        from bench.measure.devices import resolve
        from bench.timing.command import read_effort

        manner = self._manner
        effort = read_effort(manner.effort)
        device = resolve(self._over.get("device", "auto"), self._over.get("gpu"))
        kind = {"device": device.kind, "gpu": device.name if device.kind == "cuda" else None}
        planned = [self._planned(stage, kind) for stage in self._stages]
        show(planned, effort, device.index, manner.jobs, manner.console)
        if manner.dry_run:
            say(manner.console, "nothing was run")
            return 0
        worst = 0
        for number, stage in enumerate(self._stages, 1):
            where = f"stage {number} of {len(self._stages)}: {stage.name}"
            say(manner.console, f"\n{where}, scale {self._scale.name}")
            worst = max(worst, self._run(stage))
        reports = dict.fromkeys(self._name(stage.name) for stage in self._stages)
        option = results_option(manner.results)
        say(manner.console, f"\nreports: bench report STUDY{option} of {', '.join(reports)}")
        return worst

    def _run(self, stage: Stage) -> int:
        manner = self._manner
        keep = manner.checkpointing.keep or stage.keeps_checkpoints
        own = replace(
            manner,
            checkpointing=replace(manner.checkpointing, keep=keep),
            effort=manner.effort if stage.mode == TIME else {},
            jobs=1 if stage.mode == TIME else manner.jobs,
        )
        store = StudyStore(manner.results, self._name(stage.name))
        try:
            return run_asked(self._spec(stage), own)
        finally:
            if store.exists():
                write_json_atomically(store.experiment_file, self._membership(stage))

    def _membership(self, stage: Stage) -> dict[str, Any]:
        return {
            "experiment": stage.home,
            "scale": self._scale.name,
            "stage": stage.name,
            "studies": {name: self._name(name) for name in family(stage.home)},
        }

    def _name(self, stage: str) -> str:
        return f"{self._prefix}-{stage}" if self._prefix else f"{stage}-{self._scale.name}"

    def _spec(self, stage: Stage) -> StudySpec:
        """A stage's study; it may depend on what earlier stages left."""
        if stage.continues:
            from bench.starts import continued_study

            spec = continued_study(self._name(stage.continues), self._manner.results)
            return replace(spec, name=self._name(stage.name))
        spec = self._replaced(stage)
        search = StudyStore(self._manner.results, self._name(SEARCH))
        if stage.tuned and search.exists():
            wanted = {(w, m) for w in spec.workloads for m in spec.method_names}
            rates = with_variants(chosen_rates(search))
            spec = replace(spec, rates=tuple(r for r in rates if r[:2] in wanted))
        spec = replace(spec, data=data_needed(spec, to_run=True))
        spec.check()
        return spec

    def _replaced(self, stage: Stage) -> StudySpec:
        """With what the command line says."""
        spec, over = stage.spec(self._scale, self._name), self._over
        axes = {"densities", "seeds"}
        executed = {f.name: over[f.name] for f in fields(Execution) if f.name in over}
        replaced = {} if stage.name == SEARCH else {k: v for k, v in over.items() if k in axes}
        shared = {k: v for k, v in over.items() if k not in axes and k not in executed}
        grids = tuple(
            replace(grid, **replaced, execution=replace(grid.execution, **executed))
            for grid in spec.grids
        )
        return replace(spec, grids=grids, **shared)

    def _planned(self, stage: Stage, device: Mapping[str, Any]) -> Planned:
        """A stage's runs, as far as that can be known before earlier stages are done."""
        from bench.datasets.study import find_data
        from bench.datasets.watch import ConsoleWatch
        from bench.runner import pending_runs
        from bench.starts import compact_only, planned_starts

        store = StudyStore(self._manner.results, self._name(stage.name))
        if stage.continues:
            before = next(s for s in self._stages if s.name == stage.continues)
            spec = compact_only(self._spec(before), store.study, self._name(stage.continues))
        else:
            spec = self._spec(stage)
        manner = self._manner
        spec, runs = find_data(replace(spec, **device), manner.place, ConsoleWatch(manner.console))
        runs = planned_starts(spec, runs, manner.results)
        return Planned(stage, store, runs, pending_runs(runs, store))


def _read(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options by field of StudySpec, of Grid, or of Execution."""
    read = {}
    for key, value in given.items():
        if value is not None and key != "name":
            read[KEYS[key].field] = KEYS[key].read(f"--{key.replace('_', '-')}", value)
    return read
