"""The files of a report: pictures, tables and pages in a study's report folder."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.errors import UsageError
from reports.picture import Picture
from reports.table import Table
from reports.writers import csv_text, latex

SUFFIXES = (".csv", ".tex", ".png", ".svg")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Makes the folder. Raises UsageError if something cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"cannot write the report in {folder}: {reason}") from error


def clear(folder: Path, stems: set[str], prefix: str | None = None) -> None:
    """Remove an earlier report's files, so that none survives that this one does not write.

    Args:
        stems: names of files, without what follows a hyphen.
        prefix: of further ones.
    """
    for path in folder.iterdir():
        named = path.stem.split("-")[0] in stems
        if path.suffix in SUFFIXES and (named or (prefix and path.stem.startswith(prefix))):
            path.unlink()


def write_pictures(pictures: Iterable[Picture], folder: Path) -> tuple[list[Path], list[str]]:
    """The files, and Markdown that shows each picture or says why there is none.

    Args:
        pictures: drawn while they are read.
    """
    from reports.plot_style import save, styled  # matplotlib: not for an input that is refused

    written, links = [], []
    with styled():
        for name, what, figure, otherwise in pictures:
            if figure is None:
                links.append(f"Left out: {what[:1].lower()}{what[1:]}, since {otherwise}.")
                continue
            written += save(figure, folder, name)
            links.append(f"![{what}]({name}.png)\n\n[{what}, as SVG]({name}.svg)")
    return written, links


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Each as CSV and as LaTeX."""
    return [
        write_text(folder / f"{table.key}{suffix}", text)
        for table in tables
        for suffix, text in ((".csv", csv_text(table)), (".tex", latex(table)))
    ]


def files_section(tables: Sequence[Table]) -> str:
    """Markdown that links every table's files."""
    files = ", ".join(f"[{t.key}]({t.key}.csv) ([LaTeX]({t.key}.tex))" for t in tables)
    return f"## Files\n\nEvery table as CSV with unrounded numbers, and as LaTeX: {files}."


def write_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
