"""The table of what the memory of every kind of step is made of, of contenders timed in blocks."""

from collections.abc import Sequence

from reports.load import Records
from reports.side_by_side import Comparison
from reports.table import Column, Table
from reports.table_parts import DENSITY, METHOD, section
from reports.tables_memory import (
    ALLOCATOR,
    ALLOCATOR_NOTE,
    OUTSIDE,
    PART_COLUMNS,
    parts_of,
    parts_row,
)


def memory_by_segment(records: Records, comparisons: Sequence[Comparison]) -> Table:
    """A row for every segment of every contender; nothing for records older than the parts."""
    sources = {s for c in comparisons for t in c.contenders for s in t.facts.memory_sources}
    columns = [METHOD, DENSITY, Column("segment", "kind of step", text=True), *PART_COLUMNS]
    columns += [OUTSIDE] if ALLOCATOR in sources else []
    sections = []
    for comparison in comparisons:
        rows, owners = [], []
        for contender in comparison.contenders:
            own = ALLOCATOR in contender.facts.memory_sources
            for cost in contender.costs:
                if parts := parts_of(cost):
                    peak = cost["peak_allocated_bytes"] if own else None
                    name = cost["segment"].replace("_", " ")
                    rows.append({"segment": name, **parts_row(parts, peak)})
                    owners.append(contender.facts)
        sections.append(section(records, comparison.setting, owners, columns, rows))
    notes = [
        "The peak of one step of every segment at its highest moment, in the run with the largest; "
        "of update windows, that of the update step. The largest sum is the peak that the table of "
        "memory by cause takes apart.",
    ]
    notes += [ALLOCATOR_NOTE] if ALLOCATOR in sources else []
    return Table("memory_by_segment", "Memory by cause and kind of step", sections, notes)
