"""Fine-tuning runs and what continued them: joined by the run that a continuation starts from."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.contenders import Setting
from reports.experiment_family import Family, Study
from reports.load import CONTINUE, FINETUNE, Run
from reports.published import EQUAL, MATCHED
from reports.summary import Summary

PRETRAINING = "pretraining"
STAGES = {EQUAL: ("finetune", FINETUNE), MATCHED: ("matched-compute", CONTINUE)}
"""Phase -> stage of the experiment, and how the runs of that stage start."""


@dataclass(frozen=True)
class Course:
    """One method at one density; None for a phase that has no runs (yet)."""

    equal: Summary | None
    matched: Summary | None

    @property
    def first(self) -> Summary:
        found = self.equal or self.matched
        assert found is not None
        return found

    @property
    def name(self) -> str:
        return self.first.contender.name

    @property
    def density(self) -> float:
        return self.first.contender.density

    @property
    def setting(self) -> Setting:
        return self.first.contender.setting

    @property
    def phases(self) -> list[tuple[str, Summary]]:
        both = ((EQUAL, self.equal), (MATCHED, self.matched))
        return [(phase, summary) for phase, summary in both if summary]


def courses(family: Family) -> list[Course]:
    """Every fine-tuned contender with its continuation; a continuation whose start is not there
    stands alone."""
    tuned, continued = (_started(family, phase) for phase in (EQUAL, MATCHED))
    owner = {run["run_id"]: summary for summary in tuned for run in summary.contender.runs}
    follows: dict[int, Summary] = {}
    alone = []
    for summary in continued:
        starts = {run["start_run_id"] for run in summary.contender.runs}
        before = {id(owner[start]) for start in starts if start in owner}
        if len(before) == 1 and before.isdisjoint(follows):
            follows[before.pop()] = summary
        else:
            alone.append(summary)
    joined = [Course(summary, follows.get(id(summary))) for summary in tuned]
    return joined + [Course(None, summary) for summary in alone]


def stage_study(family: Family, phase: str) -> Study | None:
    return family.study(STAGES[phase][0])


def by_course_setting(all_courses: Sequence[Course]) -> list[tuple[Setting, list[Course]]]:
    """Courses of each setting (of their first phase), in order."""
    settings = dict.fromkeys(course.setting for course in all_courses)
    return [(s, [c for c in all_courses if c.setting == s]) for s in settings]


def flops(summary: Summary) -> float | None:
    """Training FLOPs of a run from the start of fine-tuning on, mean over runs."""
    spent = [
        2 * (run["training_macs_total"] + (run["training_macs_before"] or 0.0))
        for run in summary.contender.runs
        if run["training_macs_total"]
    ]
    return sum(spent) / len(spent) if spent else None


def epochs(summary: Summary) -> float | None:
    """From the start of fine-tuning on; None where the recipe does not tell an epoch's length."""
    run = summary.contender.first_run
    per_epoch = _steps_per_epoch(run)
    steps = (run["total_steps"] or 0) + (run["steps_before"] or 0)
    return steps / per_epoch if per_epoch and steps else None


def _steps_per_epoch(run: Run) -> float | None:
    text = run.config.get("recipe.epochs")
    if text is None or not run["full_schedule_steps"]:
        return None
    return run["full_schedule_steps"] / float(text)


def _started(family: Family, phase: str) -> list[Summary]:
    stage, start = STAGES[phase]
    study = family.study(stage)
    summaries = study.summaries if study else ()
    return [s for s in summaries if s.contender.first_run["start"] == start]
