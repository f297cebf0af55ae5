"""A study at equal cost: tables to the terminal, everything beside its report, which stays."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from bench.store import StudyStore
from reports.load import load
from reports.matched import Matched, match_study
from reports.matched_costs import Cost
from reports.page import overview
from reports.picture import Picture
from reports.report_files import (
    clear,
    files_section,
    write_pictures,
    write_tables,
    write_text,
    writing,
)
from reports.table import Table
from reports.tables_matched import at_equal_cost, to_target
from reports.terminal import show_all
from reports.writers import markdown


def render_matched(
    store: StudyStore, console: Console, cost: Cost, target_top1: float | None = None
) -> list[Path]:
    """Print both tables of a study at equal cost, and return the files written.

    Args:
        target_top1: percent; None: what every contender of a setting reaches on average.

    Raises:
        UsageError: a study that does not exist or cannot be read, that holds nothing to be
            matched, or whose report cannot be written.
    """
    matched = match_study(load(store), cost)
    tables = [at_equal_cost(matched), to_target(matched, target_top1)]
    head = overview(matched.records)
    # Written first: a reader who closes the terminal's pipe early still gets the files.
    with writing(store.report_folder):
        written = _write(store.report_folder, matched, head, tables)
    show_all(head, tables, console)
    return written


def pictures(matched: Matched) -> Iterable[Picture]:
    """One per setting; names carry the workload where there are several."""
    from reports.plots_matched import best_so_far  # matplotlib: not for an input that is refused

    several = len(matched.settings) > 1
    for index, peers in enumerate(matched.settings, 1):
        tail = f"-{peers.setting.slug}-{index}" if several else ""
        where = f" ({peers.setting['workload']})" if several else ""
        what = f"Accuracy against {matched.cost.quantity}{where}"
        yield f"match_{matched.cost.name}{tail}", what, best_so_far(matched, peers), ""


def _write(
    folder: Path, matched: Matched, head: Sequence[str], tables: Sequence[Table]
) -> list[Path]:
    clear(folder, {table.key for table in tables})
    drawn, links = write_pictures(pictures(matched), folder)
    page = "\n\n".join(
        [
            f"# {matched.records.study} at equal {matched.cost.quantity}",
            "\n".join(f"* {line}" for line in head),
            *(markdown(table).rstrip() for table in tables),
            "## Pictures",
            *links,
            files_section(tables),
        ]
    )
    path = folder / f"match_{matched.cost.name}.md"
    return [write_text(path, page + "\n"), *drawn, *write_tables(tables, folder)]
