"""Accuracy of contenders, and their differences to BARTER on the same seeds."""

from collections.abc import Callable, Sequence
from typing import Any

from reports import differences, published
from reports.contenders import Setting
from reports.differences import Judged, judge
from reports.experiment_family import Study
from reports.formats import integer, percent
from reports.load import Run
from reports.published import Published
from reports.statistics import Estimate
from reports.summary import Summary, paired_difference
from reports.table import Column, Shown, Table
from reports.table_parts import DENSITY, METHOD, by_setting, section
from reports.tables_outcome import SYNTHETIC

SEEDS = Column("seeds", "seeds", integer)
TOP1 = Column("top1_percent", "top-1, % [95%]", percent, interval=True)
MACRO_F1 = Column("macro_f1_percent", "macro-F1, % [95%]", percent, interval=True)
RATE = Column("learning_rate", "learning rate")
PUBLISHED_DIFFERENCE = Column("published_difference_points", "published difference, points")
TEST_NOTE = (
    "Test split, checkpoint selected on the validation split, mean over seeds. Intervals: 95 %, "
    "Student's t over seeds; one seed has none."
)
SYNTHETIC_NOTE = "Synthetic data: nothing can be learned, so there is no accuracy."
INVALID = "invalid"

PublishedOf = Callable[[Summary], Published | None]


def accuracy_cells(summary: Summary) -> dict[str, Any]:
    """Seeds, top-1 and macro-F1; words where there is none."""
    none = Shown(SYNTHETIC if summary.contender.setting["synthetic_data"] else "not recorded")
    return {
        "seeds": summary.top1.runs if summary.top1 else len(summary.contender.seeds),
        "top1_percent": summary.top1 or none,
        "macro_f1_percent": summary.macro_f1 or none,
    }


def against_barter(
    study: Study, key: str, title: str, published_of: PublishedOf, otherwise: str
) -> Table:
    """Every contender with its accuracy and its difference to BARTER at the same density.

    Args:
        published_of: the published difference of a contender to BARTER.
        otherwise: why there is none, where none is shown.
    """
    columns = (METHOD, DENSITY, SEEDS, RATE, TOP1, MACRO_F1)
    columns += (*differences.columns("top-1 minus barter"), PUBLISHED_DIFFERENCE)
    summaries = study.summaries
    references = {id(s): barter_beside(s, summaries) for s in summaries}
    pairs = [s for s in summaries if _compared(s, references[id(s)])]
    found = [_difference(s, references[id(s)]) for s in pairs]
    judged = judge(found)
    verdicts = {id(s): one for s, one in zip(pairs, judged, strict=True)}
    sections, shown = [], []
    for setting, here in by_setting(summaries):
        beside = {id(s): published_of(s) if id(s) in verdicts else None for s in here}
        shown += beside.values()
        rows = [
            {
                **accuracy_cells(s),
                "learning_rate": rates_text(s.contender.runs),
                **_difference_cells(s, references[id(s)], verdicts.get(id(s))),
                "published_difference_points": published.cell(beside[id(s)], sign=True),
            }
            for s in here
        ]
        notes = accuracy_notes(setting, here)
        sections.append(section(study.records, setting, here, columns, rows, notes))
    notes = [
        f"{TEST_NOTE} Differences: the row's top-1 minus that of barter at the same density, on "
        "the seeds that both have.",
        differences.family_note(judged),
        published.note(shown, otherwise),
    ]
    return Table(key, title, sections, notes)


def barter_beside(summary: Summary, summaries: Sequence[Summary]) -> Summary | None:
    return beside("barter", summary, summaries)


def beside(name: str, summary: Summary, summaries: Sequence[Summary]) -> Summary | None:
    """The valid contender of that name in a summary's setting and at its density; None if there
    is none, or several."""
    mine = summary.contender
    found = [
        s
        for s in summaries
        if (s.contender.name, s.contender.density) == (name, mine.density)
        and s.contender.setting == mine.setting
        and s.contender.valid
    ]
    return found[0] if len(found) == 1 else None


def accuracy_notes(setting: Setting, here: Sequence[Summary]) -> list[str]:
    """What is unusual about the accuracies of one setting, and of how many images they are."""
    if setting["synthetic_data"]:
        return [SYNTHETIC_NOTE]
    runs = [run for s in here for run in s.contender.runs]
    images = sorted({run["test_images"] for run in runs if run["test_images"]})
    notes = [f"Test images: {' or '.join(f'{n:,}' for n in images)}."] if images else []
    if any(s.top1 and s.top1.runs == 1 for s in here):
        notes.append("Where n is one seed there is no interval.")
    if any(s.top1 and s.top1.se == 0 for s in here):
        notes.append(
            "An interval of no width means that all seeds classified as many images: so few seeds "
            "and images say nothing of the spread then."
        )
    return notes


def learning_rate(run: Run) -> float | None:
    """Peak of a run's schedule; of older records from their configuration."""
    if run["learning_rate"] is not None:
        return run["learning_rate"]
    text = run.config.get("recipe.learning_rate")
    return None if text is None else float(text)


def rates_text(runs: Sequence[Run]) -> str | None:
    """The rate that runs share, or all of theirs."""
    rates = {rate for run in runs if (rate := learning_rate(run)) is not None}
    return ", ".join(f"{rate:g}" for rate in sorted(rates)) or None


def _compared(mine: Summary, barter: Summary | None) -> bool:
    synthetic = mine.contender.setting["synthetic_data"]
    return barter is not None and mine is not barter and mine.contender.valid and not synthetic


def _difference(mine: Summary, barter: Summary | None) -> Estimate | None:
    return paired_difference(mine, barter) if barter else None


def _difference_cells(
    mine: Summary, barter: Summary | None, judged: Judged | None
) -> dict[str, Any]:
    if mine.contender.setting["synthetic_data"]:
        return {"verdict": SYNTHETIC}
    if not mine.contender.valid:
        return {"verdict": INVALID}
    if mine is barter:
        return differences.REFERENCE
    return differences.cells(judged) if judged else {}
