"""The experiments `finetune` and `matched-compute`: accuracy after equal epochs, and after compact
models have spent what dense training spends (specification, section 7)."""

from collections.abc import Iterable, Sequence
from typing import Any

from reports import captions, published
from reports.courses import (
    PRETRAINING,
    STAGES,
    Course,
    by_course_setting,
    courses,
    epochs,
    flops,
    stage_study,
)
from reports.experiment_accuracy import (
    MACRO_F1,
    SEEDS,
    TEST_NOTE,
    TOP1,
    accuracy_cells,
    accuracy_notes,
)
from reports.experiment_family import Family
from reports.experiment_finetune_pairs import differences_table
from reports.formats import number
from reports.picture import Picture
from reports.published import EQUAL, FINETUNED_WORKLOAD, MATCHED, Published
from reports.summary import Summary
from reports.table import Column, Section, Table
from reports.table_parts import DENSITY, METHOD, by_setting, named, section, with_active

COLUMNS = (
    METHOD,
    DENSITY,
    Column("phase", "after", text=True),
    SEEDS,
    Column("epochs", "epochs", lambda value: f"{value:.2f}"),
    Column("training_tflops", "training, TFLOPs", lambda value: number(value, 4)),
    Column("flops_of_dense", "FLOPs / dense's", lambda value: f"{value:.3f}"),
    TOP1,
    Column("published_top1_percent", "published top-1, %"),
    MACRO_F1,
    Column("published_macro_f1_percent", "published macro-F1, %"),
)


def tables(family: Family) -> list[Table]:
    found = courses(family)
    return [_accuracy(family, found), differences_table(family, found)]


def _accuracy(family: Family, found: Sequence[Course]) -> Table:
    sections, shown = [], []
    for setting, here in by_course_setting(found):
        spent_by_dense = next((flops(c.first) for c in here if c.name == "dense"), None)
        rows = []
        for course in here:
            for phase, summary in course.phases:
                top1, f1 = _published(course, phase)
                shown += [top1, f1]
                cells = _cells(phase, summary, spent_by_dense) | {
                    "published_top1_percent": published.cell(top1),
                    "published_macro_f1_percent": published.cell(f1),
                }
                rows.append(named(summary, cells))
        summaries = [summary for course in here for _, summary in course.phases]
        notes = [
            *accuracy_notes(setting, summaries),
            *_continued_elsewhere(here),
            *_left_out(family, here),
        ]
        sections.append(
            Section(
                captions.caption(setting, [r for c in here for r in c.first.contender.runs]),
                with_active(COLUMNS),
                rows,
                notes,
                captions.setting_columns(setting),
                heads=2,
            )
        )
    notes = [
        f"{TEST_NOTE} Equal epochs: the caption's schedule. Matched compute: the same runs, "
        "continued with fixed topology and a fresh schedule until forward plus backward have cost "
        "what the dense run's do; epochs and FLOPs (2 MACs) count from the start of fine-tuning.",
        published.note(shown, published.OTHER_MODEL),
        *(f"Missing, {reason}." for reason in family.missing),
    ]
    title = "Fine-tuning, after equal epochs and at matched compute"
    pretraining = _pretraining(family)
    return Table("experiment_finetune", title, [*sections, *pretraining], notes)


def _cells(phase: str, summary: Summary, spent_by_dense: float | None) -> dict[str, Any]:
    spent = flops(summary)
    return {
        "phase": phase,
        "epochs": epochs(summary),
        "training_tflops": spent and spent / 1e12,
        "flops_of_dense": spent / spent_by_dense if spent and spent_by_dense else None,
        **accuracy_cells(summary),
    }


def _published(course: Course, phase: str) -> tuple[Published | None, Published | None]:
    if course.setting["workload"] != FINETUNED_WORKLOAD:
        return None, None
    key = (course.name, course.density, phase)
    return published.FINETUNED_TOP1.get(key), published.FINETUNED_F1.get(key)


def _pretraining(family: Family) -> list[Section]:
    """The dense runs that fine-tuning starts from."""
    study = family.study(PRETRAINING)
    if study is None:
        return []
    sections = []
    for setting, here in by_setting(study.summaries):
        rows = [_cells("pretraining", summary, None) for summary in here]
        notes = ["Pretraining: where every fine-tuning run of a seed starts."]
        notes += accuracy_notes(setting, here)
        sections.append(section(study.records, setting, here, COLUMNS, rows, notes))
    return sections


def _continued_elsewhere(here: Sequence[Course]) -> list[str]:
    """A note if continuations ran under other conditions than what they continue."""
    differing = {
        column
        for course in here
        if course.equal and course.matched
        for column in course.equal.contender.setting.difference(course.matched.contender.setting)
    } - {"total_steps"}
    if not differing:
        return []
    return [f"Continued under other conditions: {', '.join(sorted(differing))}."]


def _left_out(family: Family, here: Sequence[Course]) -> list[str]:
    setting = here[0].setting
    return [
        f"Stage {STAGES[phase][0]}. {line}"
        for phase in (EQUAL, MATCHED)
        if (study := stage_study(family, phase))
        for line in captions.left_out(study.records, setting)
    ]


def pictures(family: Family) -> Iterable[Picture]:
    from reports.plots_continued import accuracy_against_compute

    settings = by_course_setting(courses(family))
    for index, (setting, here) in enumerate(settings, 1):
        tail = f"-{setting.slug}-{index}" if len(settings) > 1 else ""
        where = f" ({setting['workload']})" if len(settings) > 1 else ""
        what = f"Validation accuracy against the compute of fine-tuning{where}"
        figure = accuracy_against_compute(setting, here, family)
        none = "no validation accuracy was recorded"
        yield f"experiment_finetune{tail}", what, figure, none
