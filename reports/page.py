"""The report of a study: tables to the terminal, everything into `results/<study>/report/`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rich.console import Console

from bench.modes import TIME
from bench.store import StudyStore
from reports import (
    captions_time,
    experiments,
    forced,
    page_ledger,
    page_time,
    tables_memory,
    tables_operations,
    tables_outcome,
    tables_size,
    tables_time,
)
from reports.captions import METHOD
from reports.experiment_family import study_of
from reports.load import Records, Standing, load
from reports.picture import Picture
from reports.predictions import read_predictions
from reports.report_files import (
    clear,
    files_section,
    write_pictures,
    write_tables,
    write_text,
    writing,
)
from reports.summary import Summary
from reports.table import Table
from reports.table_parts import by_setting
from reports.terminal import show_all
from reports.writers import markdown

TABLES: tuple[Callable[[Records, Sequence[Summary]], Table], ...] = (
    tables_time.step_time,
    tables_time.speedups,
    tables_time.kinds_of_step,
    tables_memory.memory,
    tables_memory.memory_by_cause,
    tables_memory.memory_by_kind,
    tables_size.compute,
    tables_operations.operations,
    tables_size.parameters,
    tables_outcome.accuracy,
    tables_outcome.transfers,
)
PAGE = "report.md"
PICTURES = ("step_time", "memory", "accuracy", "widths")


@dataclass(frozen=True)
class Content:
    """What a report says; the pictures are drawn while they are read."""

    head: Sequence[str]
    tables: Sequence[Table]
    pictures: Iterable[Picture]
    method: str


def render(store: StudyStore, console: Console, force: bool = False) -> list[Path]:
    """Write a study's report, print its tables, and return the files written.

    Args:
        force: add ratios between contenders of different settings, marked as such.

    Raises UsageError for a study that does not exist or has no run, for records or predictions
    that cannot be read, and if the report cannot be written.
    """
    records = replace(load(store), forced=force, predictions=read_predictions(store))
    content = _content(records)
    # Written first: a reader who closes the terminal's pipe early still gets the files.
    with writing(store.report_folder):
        written = _write(store.report_folder, store.study, content)
    show_all(content.head, content.tables, console)
    return written


def _content(records: Records) -> Content:
    """Runs that were timed side by side have blocks, the others steps: their tables differ."""
    study = study_of(records)
    records, summaries, comparisons = study.records, study.summaries, study.comparisons
    own = experiments.part_of(study)
    books = page_ledger.books_of(study)
    if records.mode == TIME:
        across = [forced.timed(comparisons)] if records.forced else []
        tables = [*page_time.make_tables(records, comparisons), *_closing(records)]
        pictured = page_time.pictures(comparisons)
        method = captions_time.METHOD
    else:
        across = [forced.trained(summaries)] if records.forced else []
        tables = make_tables(records, summaries)
        pictured = pictures(records, summaries)
        method = METHOD
    return Content(
        head=[*overview(records), *page_ledger.head(records, books), *own.head],
        tables=[
            *(*own.tables, *_filled(across)),
            *(*page_ledger.make_tables(records, books), *tables),
        ],
        pictures=chain(own.pictures, page_ledger.pictures(books, records.predictions), pictured),
        method=method,
    )


def make_tables(records: Records, summaries: Sequence[Summary]) -> list[Table]:
    """All tables that have something to say; that of left-out runs always does."""
    made = [make(records, summaries) for make in TABLES] if summaries else []
    return [*_filled(made), *_closing(records)]


def _filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if any(section.rows for section in table.sections)]


def _closing(records: Records) -> list[Table]:
    listings = (tables_outcome.configuration(records), tables_outcome.environment(records))
    return [tables_outcome.care(records), *(table for table in listings if table.sections)]


def overview(records: Records) -> list[str]:
    """What the study holds: runs by standing, harness versions."""
    counts = [
        f"{count} {standing}"
        for standing in Standing
        if (count := sum(run.standing is standing for run in records.runs))
    ]
    commits = sorted({run["git_commit"] or "commit not recorded" for run in records.runs})
    lines = [
        f"Study {records.study}: {len(records.runs)} runs ({', '.join(counts)}).",
        f"Harness: {', '.join(commits)}.",
    ]
    incomplete = records.store.incomplete()
    if incomplete:
        lines.append(
            f"Left out, as a record file is missing: {', '.join(incomplete)};"
            " `bench run` repeats such runs."
        )
    if len(commits) > 1:
        lines.append("Its runs come from several versions of the harness: compare with care.")
    if any("+dirty" in commit for commit in commits):
        lines.append("+dirty: local changes that no commit holds, so it cannot be reproduced.")
    return lines


def _write(folder: Path, study: str, content: Content) -> list[Path]:
    clear(folder, _stems(), experiments.PREFIX)
    drawn, links = write_pictures(content.pictures, folder)
    written = [*drawn, *write_tables(content.tables, folder)]
    page = "\n\n".join(
        [
            f"# {study}",
            "\n".join(f"* {line}" for line in content.head),
            *(markdown(table).rstrip() for table in content.tables),
            f"## How the intervals are made\n\n{content.method}",
            "## Pictures",
            *(links or ["No run has figures to draw."]),
            files_section(content.tables),
        ]
    )
    return [write_text(folder / PAGE, page + "\n"), *written]


def pictures(records: Records, summaries: Sequence[Summary]) -> Iterable[Picture]:
    """Every picture of every setting; names carry the workload where there are several."""
    from reports.plots_accuracy import accuracy
    from reports.plots_bars import memory, step_time
    from reports.plots_widths import widths

    settings = by_setting(summaries)
    for index, (setting, here) in enumerate(settings, 1):
        tail = f"-{setting.slug}-{index}" if len(settings) > 1 else ""
        where = f" ({setting['workload']})" if len(settings) > 1 else ""
        figure = step_time(setting, here)
        yield f"step_time{tail}", f"Step time{where}", figure, "no step was timed"
        figure = memory(setting, here)
        yield f"memory{tail}", f"Peak memory{where}", figure, "no peak was recorded"
        figure = accuracy(setting, here, records)
        none = "nothing can be learned from synthetic data"
        none = none if setting["synthetic_data"] else "no validation accuracy was recorded"
        yield f"accuracy{tail}", f"Accuracy against compute{where}", figure, none
        names: Counter[str] = Counter()
        for contender in (s.contender for s in here):
            run = contender.first_run
            if (
                not run["is_dynamic"] or run["realisation"] == "masked"
            ):  # its widths are the model's
                continue
            names[contender.slug] += 1
            again = f"-{names[contender.slug]}" if names[contender.slug] > 1 else ""
            what = f"Widths per layer over training, {contender.label_with_density}{where}"
            none = "no recorded width changed"
            yield f"widths-{contender.slug}{again}{tail}", what, widths(contender, records), none


def _stems() -> set[str]:
    """Of every file that a report may have."""
    return {
        *(*PICTURES, *page_time.PICTURES, *page_ledger.PICTURES),
        *(make.__name__ for make in (*TABLES, *page_time.TABLES, *page_ledger.TABLES)),
        forced.KEY,
        "left_out",
        "configuration",
        "environment",
    }
