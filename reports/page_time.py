"""What the report of a study holds whose contenders were timed side by side."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from reports import (
    tables_memory,
    tables_operations,
    tables_pairs,
    tables_segments,
    tables_side_by_side,
    tables_size,
)
from reports.load import Records
from reports.side_by_side import Comparison
from reports.summary import Summary
from reports.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTS: tuple[Callable[[Records, Sequence[Summary]], Table], ...] = (
    tables_memory.memory,
    tables_memory.memory_by_cause,
    tables_size.compute,
    tables_operations.operations,
    tables_size.parameters,
)
"""What contenders cost apart from time: the tables that runs in full have too."""
TABLES: tuple[Callable[[Records, Sequence[Comparison]], Table], ...] = (
    tables_side_by_side.step_time_side_by_side,
    tables_pairs.pairs_side_by_side,
    tables_side_by_side.kinds_side_by_side,
    tables_side_by_side.update_cost,
    tables_segments.memory_by_segment,
    tables_pairs.outside_the_clock,
)
PICTURES = ("ratio_to_dense", "memory")


def make_tables(records: Records, comparisons: Sequence[Comparison]) -> list[Table]:
    """All tables that have something to say; none where no run has figures."""
    if not comparisons:
        return []
    facts = [contender.facts for c in comparisons for contender in c.contenders]
    made = [make(records, comparisons) for make in TABLES]
    made += [make(records, facts) for make in COSTS]
    return [table for table in made if any(section.rows for section in table.sections)]


def pictures(comparisons: Sequence[Comparison]) -> "Iterable[tuple[str, str, Figure | None, str]]":
    """As `page.pictures`."""
    from reports.plots_bars import memory
    from reports.plots_time import ratio_to_dense

    for index, comparison in enumerate(comparisons, 1):
        many = len(comparisons) > 1
        tail = f"-{comparison.setting.slug}-{index}" if many else ""
        where = f" ({comparison.setting['workload']})" if many else ""
        figure = ratio_to_dense(comparison)
        none = "no contender has a ratio to dense"
        yield f"ratio_to_dense{tail}", f"Step time relative to dense{where}", figure, none
        figure = memory(comparison.setting, [t.facts for t in comparison.contenders])
        yield f"memory{tail}", f"Peak memory{where}", figure, "no peak was recorded"
