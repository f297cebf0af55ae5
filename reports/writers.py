"""Tables as Markdown, CSV and LaTeX (booktabs)."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from reports.table import Column, Section, Table

LATEX_COLUMNS = 8
"""A LaTeX table with more columns is cut, its leading ones repeated."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",  # noqa: RUF001
    "×": r"$\times$",  # noqa: RUF001
    "±": r"$\pm$",
    "−": r"$-$",  # noqa: RUF001
    "…": r"\ldots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "µ": r"$\mu$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def markdown(table: Table) -> str:
    """A heading, then for each section its caption, rows and notes."""
    parts = [f"## {table.title}"]
    for section in table.sections:
        if section.caption:
            parts.append(f"**{_markdown_text(section.caption)}**")
        heads = [_markdown_text(column.title) for column in section.columns]
        rule = [":---" if column.text else "---:" for column in section.columns]
        body = [[_markdown_text(c.cell(row)) for c in section.columns] for row in section.rows]
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *body)))
        if section.notes:
            parts.append("\n".join(f"* {_markdown_text(note)}" for note in section.notes))
    if table.notes:
        parts.append(" ".join(_markdown_text(note) for note in table.notes))
    return "\n\n".join(parts) + "\n"


def csv_text(table: Table) -> str:
    """Setting first, then the columns: unrounded numbers, intervals as _low and _high."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads, rows = flat(table)
    if heads:
        writer.writerow(heads)
    writer.writerows(rows)
    return out.getvalue()


def flat(table: Table) -> tuple[list[str], list[list[Any]]]:
    """The heads and rows of the CSV file; no head without a section."""
    sections = [table.csv] if table.csv else table.sections
    heads: list[str] = []
    rows = []
    for section in sections:
        heads = heads or [*section.setting, *(h for c in section.columns for h in c.csv_heads())]
        for row in section.rows:
            cells = [cell for column in section.columns for cell in column.csv_cells(row)]
            rows.append([*section.setting.values(), *cells])
    return heads, rows


def latex(table: Table) -> str:
    """One `table` environment per section (per cut, if it is wide); needs booktabs."""
    parts = ["% needs \\usepackage{booktabs}"]
    many = len(table.sections) > 1
    for index, section in enumerate(table.sections, 1):
        label = f"tab:{table.key.replace('_', '-')}" + (f"-{index}" if many else "")
        caption = ": ".join(text for text in (table.title, section.caption) if text)
        notes = latex_text(" ".join([*section.notes, *table.notes]))
        cuts = cut(section, LATEX_COLUMNS)
        body = "\n\\par\\medskip\n".join(_tabular(columns, section) for columns in cuts)
        parts.append(
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{latex_text(caption)}}}\n\\label{{{label}}}\n{body}\n"
            f"\\par\\smallskip\n{{\\footnotesize {notes}\\par}}\n\\end{{table}}"
        )
    return "\n\n".join(parts) + "\n"


def cut(section: Section, most: int) -> list[Sequence[Column]]:
    """The section's columns in groups of at most `most`, each with the leading ones."""
    if len(section.columns) <= most:
        return [section.columns]
    heads, rest = section.columns[: section.heads], section.columns[section.heads :]
    size = max(1, most - len(heads))
    return [[*heads, *rest[i : i + size]] for i in range(0, len(rest), size)]


def latex_text(text: str) -> str:
    """Text with everything escaped that LaTeX would read as a command."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _tabular(columns: Sequence[Column], section: Section) -> str:
    # Text that may be long needs a width of its own: an `l` column would run off the page.
    kinds = "".join(
        "p{0.45\\linewidth}" if c.key in ("reason", "value") else "l" if c.text else "r"
        for c in columns
    )
    lines = [" & ".join(latex_text(column.title) for column in columns)]
    lines += [
        " & ".join(latex_text(column.cell(row)) for column in columns) for row in section.rows
    ]
    head, *body = (f"{line} \\\\" for line in lines)
    rows = "\n".join(body)
    return (
        f"\\begin{{tabular}}{{{kinds}}}\n\\toprule\n{head}\n\\midrule\n{rows}\n"
        "\\bottomrule\n\\end{tabular}"
    )


def _markdown_text(text: str) -> str:
    text = re.sub(r"([\\|<`*])", r"\\\1", text)
    return " ".join(text.split())
