"""Golden data: where it lies, and how many cases of each kind were run."""

import os
from collections import Counter
from pathlib import Path

import pytest

GOLDEN_DIR = Path(os.environ.get("GOLDEN_DIR", Path(__file__).parent / "data"))

_cases_run: Counter[str] = Counter()


def golden_files(kind: str) -> list[Path]:
    """All files of one kind, e.g. `barter_selection`; a missing kind is a failure."""
    files = sorted(path for path in GOLDEN_DIR.glob(f"{kind}*") if path.suffix in (".json", ".npz"))
    if not files:
        pytest.fail(f"no golden file of kind {kind} in {GOLDEN_DIR}")
    return files


def count_case(kind: str) -> None:
    """Say that one golden case was compared."""
    _cases_run[kind] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, number in sorted(_cases_run.items()):
        terminalreporter.write_line(f"golden: {kind}: {number} cases run")
