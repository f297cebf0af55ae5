"""Golden data: where it lies, and how many cases of each kind were run."""

import os
from collections import Counter
from pathlib import Path

import pytest

GOLDEN_DIR = Path(os.environ.get("GOLDEN_DIR", Path(__file__).parent / "data"))

cases_run: Counter[str] = Counter()
"""Of this process."""


def golden_files(kind: str) -> list[Path]:
    """All files of one kind, e.g. `barter_selection`; a missing kind is a failure."""
    files = sorted(path for path in GOLDEN_DIR.glob(f"{kind}*") if path.suffix in (".json", ".npz"))
    if not files:
        pytest.fail(f"no golden file of kind {kind} in {GOLDEN_DIR}")
    return files


def count_case(kind: str) -> None:
    """Say that one golden case was compared."""
    cases_run[kind] += 1
