"""What the report of a study holds whose contenders were timed side by side."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from reports import tables_pairs, tables_side_by_side
from reports.load import Records
from reports.side_by_side import Comparison
from reports.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES: tuple[Callable[[Records, Sequence[Comparison]], Table], ...] = (
    tables_side_by_side.step_time_side_by_side,
    tables_pairs.pairs_side_by_side,
    tables_side_by_side.kinds_side_by_side,
    tables_side_by_side.update_cost,
    tables_pairs.outside_the_clock,
)
PICTURES = ("ratio_to_dense",)


def make_tables(records: Records, comparisons: Sequence[Comparison]) -> list[Table]:
    """All tables that have something to say; none where no run has figures."""
    made = [make(records, comparisons) for make in TABLES] if comparisons else []
    return [table for table in made if any(section.rows for section in table.sections)]


def pictures(comparisons: Sequence[Comparison]) -> "Iterable[tuple[str, str, Figure | None, str]]":
    """As `page.pictures`."""
    from reports.plots_time import ratio_to_dense

    for index, comparison in enumerate(comparisons, 1):
        many = len(comparisons) > 1
        tail = f"-{comparison.setting.slug}-{index}" if many else ""
        where = f" ({comparison.setting['workload']})" if many else ""
        figure = ratio_to_dense(comparison)
        none = "no contender has a ratio to dense"
        yield f"ratio_to_dense{tail}", f"Step time relative to dense{where}", figure, none
