"""Differences between fine-tuned methods: everyone over RigL, BARTER over Static."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports import captions, differences, published
from reports.courses import Course, by_course_setting, stage_study
from reports.differences import judge
from reports.experiment_accuracy import PUBLISHED_DIFFERENCE, SYNTHETIC_NOTE
from reports.experiment_family import Family
from reports.formats import integer
from reports.published import EQUAL, FINETUNED_WORKLOAD, Published
from reports.statistics import Estimate
from reports.summary import Summary, paired_difference
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD, named, with_active
from reports.tables_outcome import SYNTHETIC

COLUMNS = (
    METHOD,
    DENSITY,
    Column("phase", "after", text=True),
    Column("over_method", "minus", text=True),
    Column("over_phase", "after", text=True),
    Column("seeds", "common seeds", integer),
    *differences.columns("difference of top-1"),
    PUBLISHED_DIFFERENCE,
)


@dataclass(frozen=True)
class Pair:
    """Two contenders at one density, each in one phase."""

    mine: Summary
    phase: str
    other: Summary
    over_phase: str

    @property
    def synthetic(self) -> bool:
        return bool(self.mine.contender.setting["synthetic_data"])

    @property
    def difference(self) -> Estimate | None:
        return None if self.synthetic else paired_difference(self.mine, self.other)

    @property
    def published(self) -> Published | None:
        mine, other = self.mine.contender, self.other.contender
        if mine.setting["workload"] != FINETUNED_WORKLOAD or other.name != "rigl":
            return None
        return published.OVER_RIGL.get((mine.name, mine.density, self.phase))


def differences_table(family: Family, found: Sequence[Course]) -> Table:
    settings = [(setting, here, pairs_of(here)) for setting, here in by_course_setting(found)]
    every = [pair for _, _, pairs in settings for pair in pairs]
    judged = judge([pair.difference for pair in every])
    verdicts = dict(zip(map(id, every), judged, strict=True))
    tuned = stage_study(family, EQUAL)
    sections = []
    for setting, here, pairs in settings:
        rows = []
        for pair in pairs:
            cells = differences.cells(verdicts[id(pair)])
            if pair.synthetic:
                cells |= {"difference_points": Shown(SYNTHETIC), "verdict": SYNTHETIC}
            common = pair.mine.top1_by_seed.keys() & pair.other.top1_by_seed.keys()
            row = cells | {
                "phase": pair.phase,
                "over_method": pair.other.contender.label,
                "over_phase": pair.over_phase,
                "seeds": len(common),
                "published_difference_points": published.cell(pair.published, sign=True),
            }
            rows.append(named(pair.mine, row))
        notes = [SYNTHETIC_NOTE] if setting["synthetic_data"] else []
        notes += captions.left_out(tuned.records, setting) if tuned else []
        runs = [run for course in here for run in course.first.contender.runs]
        sections.append(
            Section(
                captions.caption(setting, runs),
                with_active(COLUMNS),
                rows,
                notes,
                captions.setting_columns(setting),
                heads=2,
            )
        )
    notes = [
        "Top-1 on the test split at the same density. RigL executes the dense model, so that after "
        "equal epochs it has spent what dense training spends: at matched compute, compact methods "
        "stand against that.",
        differences.family_note(judged),
        published.note((pair.published for pair in every), published.OTHER_MODEL),
    ]
    title = "Fine-tuning, differences between methods"
    return Table("experiment_finetune_differences", title, sections, notes)


def pairs_of(here: Sequence[Course]) -> list[Pair]:
    """Of one setting: every sparse contender minus RigL, and BARTER minus Static."""
    pairs = []
    for course in here:
        rigl = _beside("rigl", course, here)
        static = _beside("static", course, here) if course.name == "barter" else None
        for phase, mine in course.phases:
            if not mine.contender.valid:
                continue
            if rigl and rigl.equal and rigl is not course:
                pairs.append(Pair(mine, phase, rigl.equal, EQUAL))
            other = dict(static.phases).get(phase) if static else None
            if other:
                pairs.append(Pair(mine, phase, other, phase))
    return pairs


def _beside(name: str, course: Course, here: Sequence[Course]) -> Course | None:
    """The valid contender of that name at the course's density, if there is one."""
    found = [
        c for c in here if (c.name, c.density) == (name, course.density) and c.first.contender.valid
    ]
    return found[0] if len(found) == 1 else None
