"""A note in a study's folder of the runs that are under way, for `bench status`. No torch."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from bench.errors import UsageError
from bench.files import read_json, write_text_atomically
from bench.progress import Progress
from bench.run_rows import Row
from bench.run_spec import RunSpec
from bench.runner import Display
from bench.store import StudyStore

INTERVAL_S = 10.0
"""Between two notes: writing takes time from the step that is being timed, if little."""


class Noting:
    """A display that also writes down where the current runs are."""

    def __init__(self, display: Display, store: StudyStore) -> None:
        self._display, self._store = display, store
        self._runs: dict[str, dict[str, Any]] = {}
        self._at = 0.0

    def begin(self, runs: Sequence[RunSpec], finished: int) -> None:
        self._display.begin(runs, finished)

    def run_started(self, spec: RunSpec, done_before: int) -> None:
        self._runs[spec.run_id] = {"step": done_before, "total_steps": spec.total_steps}
        self._write()
        self._display.run_started(spec, done_before)

    def run_progress(self, spec: RunSpec, progress: Progress) -> None:
        self._runs[spec.run_id] = asdict(progress)
        if time.monotonic() - self._at >= INTERVAL_S:
            self._write()
        self._display.run_progress(spec, progress)

    def run_ended(self, spec: RunSpec, row: Row) -> None:
        self._runs.pop(spec.run_id, None)
        self._display.run_ended(spec, row)

    def end(self) -> None:
        self._store.running_file.unlink(missing_ok=True)
        self._display.end()

    def _write(self) -> None:
        self._at = time.monotonic()
        with suppress(UsageError):  # a note is no record: its loss stops nothing
            write_text_atomically(self._store.running_file, json.dumps(self._runs) + "\n")


def running_note(store: StudyStore) -> dict[str, dict[str, Any]]:
    """What was noted last, by run; empty where nothing is, or nothing readable."""
    with suppress(UsageError):
        content = read_json(store.running_file)
        if isinstance(content, dict):
            return {key: value for key, value in content.items() if isinstance(value, dict)}
    return {}
