"""The experiment `step-time`: every method's step beside the published estimates."""

from collections.abc import Sequence
from typing import Any

from reports import captions_time, published
from reports.contenders import density_text
from reports.experiment_family import Family
from reports.formats import estimate
from reports.paired import inverse
from reports.published import MODEL_OF, Published
from reports.side_by_side import NO_BLOCK, Comparison
from reports.summary_time import TimedContender
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, section
from reports.tables_side_by_side import LAUNCHES, REFERENCE

OFFICIAL = "rigl [overhead=official]"
"""With the published code's passes and synchronisations, where the study has it: the published
times are of such code."""
COLUMNS = (
    METHOD,
    DENSITY,
    LAUNCHES,
    Column("step_mean_ms", "mean, ms [95%]", estimate, interval=True),
    Column("published_step_ms", "published mean, ms"),
    Column("speedup_over_rigl", "speed-up over RigL [95%]", estimate, interval=True),
    Column("published_speedup_over_rigl", "published speed-up over RigL"),
    Column("verdict_against_rigl", "against RigL", text=True),
    Column("speedup_over_dense", "speed-up over dense [95%]", estimate, interval=True),
)


def tables(family: Family) -> list[Table]:
    study = family.here
    sections, shown = [], []
    for comparison in study.comparisons:
        rows = []
        for contender in comparison.contenders:
            rigl = _rigl(comparison, contender)
            mean, speedup = _published(comparison, contender, rigl)
            shown += [mean, speedup]
            beside = {
                "published_step_ms": published.cell(mean),
                "published_speedup_over_rigl": published.cell(speedup),
            }
            rows.append(_row(comparison, contender, rigl) | beside)
        facts = [contender.facts for contender in comparison.contenders]
        notes = [
            _reference_note(comparison),
            *captions_time.settings_notes(comparison),
            captions_time.family(comparison),
        ]
        setting = comparison.setting
        sections.append(section(study.records, setting, facts, COLUMNS, rows, notes))
    density = density_text(published.STEP_TIME_DENSITY)
    notes = [
        "The schedule-weighted mean step of the full run. Speed-up: RigL's (dense's) time divided "
        "by the row's; above 1, the row is faster.",
        published.note(shown, f"{published.OTHER_MODEL}, or of another density than {density}"),
        "Published figures are of batches whose size, and of a ViT task which, the specification "
        "does not say. Besides, it has two largest values without their setting "
        f"({published.GPU}): a measured training segment {published.LARGEST_SPEEDUP.text()} times "
        "as fast as a full-tensor method's, and peak allocated memory reduced by "
        f"{published.LARGEST_MEMORY_REDUCTION.text()} %.",
        *(captions_time.INTERVAL, captions_time.VERDICTS, captions_time.FLOOR),
    ]
    return [Table("experiment_step_time", "Step time beside RigL and dense", sections, notes)]


def _rigl(comparison: Comparison, contender: TimedContender) -> TimedContender | None:
    """RigL of the contender's density (for dense, of the only one that there is), in the form
    that the published times are of if the study has it."""
    dense = contender is comparison.dense
    for name in (OFFICIAL, "rigl"):
        found = [
            t
            for t in comparison.contenders
            if t.facts.contender.name == name
            and t.facts.contender.valid
            and (dense or t.facts.contender.density == contender.facts.contender.density)
        ]
        if len(found) == 1:
            return found[0]
    return None


def _row(
    comparison: Comparison, contender: TimedContender, rigl: TimedContender | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "launches_rounds": captions_time.launches_and_rounds(contender),
        "step_mean_ms": contender.mean or Shown(NO_BLOCK),
    }
    if not contender.facts.contender.valid:
        return row | {"verdict_against_rigl": "invalid"}
    one = Shown(REFERENCE, 1.0)
    pair = comparison.pair(contender, rigl) if rigl else None
    if contender is rigl:
        row |= {"speedup_over_rigl": one, "verdict_against_rigl": "reference"}
    elif pair:
        row["speedup_over_rigl"] = inverse(pair.judged.ratio)
        row["verdict_against_rigl"] = str(pair.judged.verdict)
    pair = comparison.pair(contender, comparison.dense) if comparison.dense else None
    if contender is comparison.dense:
        row["speedup_over_dense"] = one
    elif pair:
        row["speedup_over_dense"] = inverse(pair.judged.ratio)
    return row


def _published(
    comparison: Comparison, contender: TimedContender, rigl: TimedContender | None
) -> tuple[Published | None, Published | None]:
    """Mean step and speed-up over RigL, of full-size models at the published density."""
    facts = contender.facts.contender
    model = MODEL_OF.get(comparison.setting["workload"], "")
    if facts.density != published.STEP_TIME_DENSITY:
        return None, None
    if contender is rigl:
        return published.STEP_MS.get((model, "rigl")), None
    if facts.name != "barter":
        return None, None
    return published.STEP_MS.get((model, "barter")), published.SPEEDUP_OVER_RIGL.get(model)


def _reference_note(comparison: Comparison) -> str:
    labels = _labels([t for c in comparison.contenders if (t := _rigl(comparison, c)) is not None])
    if not labels:
        return "No valid RigL in this setting: no speed-up over it."
    return (
        f"RigL here: {', '.join(labels)}. Published times are of the official code; "
        "rigl:overhead=official is the contender with its passes, and stands for it where it was "
        "timed."
    )


def _labels(contenders: Sequence[TimedContender]) -> list[str]:
    return list(dict.fromkeys(t.facts.contender.label_with_density for t in contenders))
