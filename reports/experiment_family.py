"""The studies of a named experiment: the one whose report is made, and those beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.errors import UsageError
from bench.modes import TIME
from bench.store import StudyStore
from reports.contenders import group
from reports.load import Records, load
from reports.side_by_side import Comparison, compared
from reports.summary import Summary, summarise


@dataclass(frozen=True)
class Study:
    """A study's records and what is computed from them once."""

    records: Records
    summaries: Sequence[Summary]
    """Of runs that were trained; empty in mode time."""
    comparisons: Sequence[Comparison]
    """Of contenders that were timed side by side; empty in mode train."""


@dataclass(frozen=True)
class Family:
    """A named experiment, seen from one of its studies."""

    experiment: str
    scale: str
    stage: str
    """Of the study whose report is made."""
    names: Mapping[str, str]
    """Stage -> study, of all stages."""
    studies: Mapping[str, Study]
    """Stage -> study, of those that have a run."""
    missing: Sequence[str]
    """Why other stages are not there, in words."""

    @property
    def here(self) -> Study:
        return self.studies[self.stage]

    def study(self, stage: str) -> Study | None:
        return self.studies.get(stage)


def study_of(records: Records) -> Study:
    """Summaries of runs, or comparisons (and records checked by their blocks) in mode time."""
    if records.mode == TIME:
        records, comparisons = compared(records)
        return Study(records, [], comparisons)
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    return Study(records, summaries, [])


def family_of(study: Study) -> Family | None:
    """The experiment that a study belongs to, with all its studies that can be read; None if it
    belongs to none. Raises UsageError for a damaged `experiment.json`."""
    store = study.records.store
    content = store.experiment()
    if content is None:
        return None
    names = content["studies"]
    if not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
        raise UsageError(f"{store.experiment_file}: no studies by stage; repeat `bench run`")
    stages = [stage for stage, name in names.items() if name == store.study]
    stage = stages[0] if stages else content.get("stage")
    if not isinstance(stage, str):
        raise UsageError(f"{store.experiment_file}: no stage is {store.study}; repeat `bench run`")
    studies, missing = {}, []
    for other, name in names.items():
        found = study if other == stage else _read(store, name)
        if isinstance(found, Study):
            studies[other] = found
        else:
            missing.append(f"stage {other}: {found}")
    return Family(
        experiment=str(content["experiment"]),
        scale=str(content["scale"]),
        stage=stage,
        names=names,
        studies={stage: study} | studies,
        missing=missing,
    )


def _read(beside: StudyStore, name: str) -> Study | str:
    """A study of the same results folder, or why it cannot be had: that is no reason to refuse
    the report of another one."""
    try:
        store = StudyStore(beside.root, name)
        if not store.exists():
            return f"study {name} has not been started"
        return study_of(load(store))
    except UsageError as error:
        return str(error)
