"""`bench compare`: finds the two studies, and leaves what is said of them to the reports."""

from pathlib import Path

from rich.console import Console

from bench.errors import UsageError
from bench.store import StudyStore
from bench.wording import count


def compare_command(
    before: str, after: str, results: Path, force: bool, output: Path | None, console: Console
) -> None:
    """Print how the second study differs from the first one, and write it into a folder.

    Args:
        before: name under the results folder, or path of a study's folder; likewise `after`.
        force: compare times under unlike conditions too, marked.

    Raises:
        UsageError: no such study, one that cannot be read, the same one twice, two that have
            nothing in common, or an output folder that cannot be written.
    """
    stores = find_study(before, results), find_study(after, results)
    folders = [store.folder.resolve() for store in stores]
    if folders[0] == folders[1]:
        raise UsageError(
            f"{before} and {after} are the same study ({stores[0].folder}): give two different ones"
        )
    from reports.compare_times import compare
    from reports.page_compare import make_page, print_page, write_page

    page = make_page(compare(*stores, force))
    # Written first: a reader who closes the terminal's pipe early still gets the files.
    written = write_page(page, output) if output else []
    print_page(page, console)
    if output:
        text = f"{count(len(written), 'file')} in {output}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def find_study(text: str, results: Path) -> StudyStore:
    """The study of a name under the results folder, else of a path.

    Raises:
        UsageError: there is none; says what is there instead.
    """
    path = Path(text)
    is_name = path.name == text
    if path.is_dir() and not (is_name and (results / text).is_dir()):
        named = path if path.name not in ("", "..") else path.resolve()  # `.` has no name
        store = StudyStore(named.parent, named.name)
        if not store.exists():
            raise UsageError(
                f"{text} is a folder, but no study: a study's folder holds study.json and runs/"
            )
        return store
    if not is_name:
        is_file = "is a file" if path.is_file() else "does not exist"
        raise UsageError(f"{text} {is_file}: give a study's folder, or its name under {results}")
    store = StudyStore(results, text)
    store.require()
    return store
