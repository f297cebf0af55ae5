"""The records on disk: one parquet file per run and table, written aside and renamed.

    results/<study>/{runs,steps,evals,updates,telemetry}/<run_id>.parquet
    results/<study>/packed/{runs,steps,...}.parquet     (after `bench pack`: many runs in one)
    results/<study>/study.json
    results/<study>/experiment.json          (of a named experiment)
    results/<study>/running.json             (while a run is under way)
    results/<study>/predictions.json         (if someone put it there; read by reports)
    results/<study>/report/
    results/<study>/checkpoints/<run_id>/    (bench.checkpoints)

A run is recorded once its file in `runs/` exists, so that one is written last; whatever an
interrupted run left in the other folders is not read. A recorded run that lost another file is
incomplete: not in a report, and to be run again. pandas is imported only by `read`.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.errors import UsageError
from bench.files import cannot, clean_partial, read_json, write_aside
from bench.packed import packed_ids, read_packed, write_packed
from bench.record_files import Row, no_rows, read_file, to_arrow
from bench.schema import OK, TABLES, arrow_schema

if TYPE_CHECKING:
    import pandas as pd

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=-]*")


@dataclass(frozen=True)
class StudyStore:
    """The records of one study under a results folder.

    Raises UsageError for a study name that is not a plain file name.
    """

    root: Path
    study: str

    def __post_init__(self) -> None:
        if not _PLAIN_NAME.fullmatch(self.study):
            raise UsageError(
                f"study name {self.study!r}: use letters, digits and any of . _ + = -, "
                "beginning with a letter, a digit or _"
            )

    @property
    def folder(self) -> Path:
        return self.root / self.study

    @property
    def report_folder(self) -> Path:
        return self.folder / "report"

    @property
    def checkpoints_folder(self) -> Path:
        """One folder per run that is under way, or whose checkpoints were to be kept."""
        return self.folder / "checkpoints"

    @property
    def study_file(self) -> Path:
        return self.folder / "study.json"

    @property
    def experiment_file(self) -> Path:
        """Of a study that belongs to a named experiment."""
        return self.folder / "experiment.json"

    @property
    def predictions_file(self) -> Path:
        """What runs were predicted to cost, if someone put that beside them."""
        return self.folder / "predictions.json"

    @property
    def running_file(self) -> Path:
        """Note of the run that is under way."""
        return self.folder / "running.json"

    def experiment(self) -> dict[str, Any] | None:
        """What that file says: `experiment` and `scale`, and `studies`, the names of all its
        studies by stage; None for any other study. Raises UsageError if it is damaged."""
        if not self.experiment_file.exists():
            return None
        content = read_json(self.experiment_file)
        if not isinstance(content, dict) or not {"experiment", "scale", "studies"} <= set(content):
            raise UsageError(f"{self.experiment_file} names no experiment: repeat `bench run`")
        return content

    def exists(self) -> bool:
        return _is_study(self.folder)

    def require(self) -> None:
        """Raises UsageError, with the nearest name, unless the study has been started."""
        if self.exists():
            return
        there = studies(self.root)
        if not there:
            raise UsageError(f"no study in {self.root}: start one with `bench run`")
        near = difflib.get_close_matches(self.study, there, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(
            f"no study {self.study!r} in {self.root}{hint} (there is: {', '.join(there)})"
        )

    # ---------------------------------------------------------------- writing

    def write(self, table: str, run_id: str, rows: Sequence[Row]) -> Path:
        """Write a run's rows of one table, all or nothing, and return the file's path.

        A missing key becomes null, a missing `run_id` becomes the file's. Raises ValueError
        for a key or value that the schema does not have, for rows of another run, and unless
        there is exactly one row for `runs`; UsageError if the file cannot be written.
        """
        if not _PLAIN_NAME.fullmatch(run_id):
            raise ValueError(f"run id {run_id!r} is not a plain file name")
        if table == "runs" and len(rows) != 1:
            raise ValueError(f"the runs table has one row per run, not {len(rows)}")
        content = to_arrow(table, run_id, rows)
        path = self.folder / table / f"{run_id}.parquet"
        write_aside(path, lambda temporary: pq.write_table(content, temporary))
        return path

    def write_run(self, run_id: str, tables: Mapping[str, Sequence[Row]]) -> None:
        """Write all tables of a run, `runs` last; a table not given is written empty.

        Empty tables are written too, so that a repeated run leaves nothing of the one before.
        """
        unknown = set(tables) - set(TABLES)
        if unknown:
            raise ValueError(f"no such table: {', '.join(sorted(unknown))}")
        for table in (*(name for name in TABLES if name != "runs"), "runs"):
            self.write(table, run_id, tables.get(table, ()))

    def check_writable(self) -> None:
        """Raises UsageError unless the study's folder can be created and written."""
        probe = self.folder / f".writable.{os.getpid()}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise UsageError(cannot("write to", self.folder, error)) from error

    def clean_partial(self) -> None:
        """Remove what writers that died left behind; a living process keeps its own."""
        for folder in (self.folder, *(self.folder / table for table in TABLES)):
            clean_partial(folder)

    # ---------------------------------------------------------------- reading

    def arrow(
        self,
        table: str,
        columns: Iterable[str] | None = None,
        run_ids: Iterable[str] | None = None,
    ) -> pa.Table:
        """The rows of all recorded runs, in the schema's types and column order.

        `columns` and `run_ids` limit what is loaded. Columns that the schema does not know are
        ignored and missing ones are null. Raises UsageError for a study that does not exist and
        for a file that is unreadable, foreign, mislabelled or newer than this program.
        """
        self.require()
        wanted = arrow_schema(table)
        if columns is not None:
            names = set(columns) | {"run_id"}
            wanted = pa.schema([field for field in wanted if field.name in names])
        loaded = self._ids("runs")
        if run_ids is not None:
            loaded &= set(run_ids)
        files = self._files(table)
        parts = [read_file(path, table, wanted, loaded) for path in files]
        older = loaded - {path.stem for path in files}
        parts += read_packed(self._packed(table), table, wanted, older)
        return pa.concat_tables([no_rows(wanted), *parts])

    def read(self, table: str) -> "pd.DataFrame":
        """`arrow(table)` as a frame: nulls are NaN or None, lists are arrays."""
        return self.arrow(table).to_pandas()

    def finished(self) -> dict[str, dict[str, Any]]:
        """The `runs` row of every recorded run, whatever its status; empty for a new study."""
        if not self.exists():
            return {}
        return {row["run_id"]: row for row in self.arrow("runs").to_pylist()}

    def incomplete(self) -> list[str]:
        """Ids of recorded runs that lack a file of some table: they count as not done."""
        # Records from before `bench run --mode time` have no blocks, and need none.
        needed = [table for table in TABLES if table not in ("segments", "blocks")]
        whole = set.intersection(*(self._ids(table) for table in needed))
        return sorted(self._ids("runs") - whole)

    def pack(self) -> int:
        """Put the records of all runs that succeeded into one file per table; returns their number.

        Others stay as they are, to be run again. Nothing is lost if it is interrupted: single files
        go when all packed ones are there. Raises UsageError as `arrow`, and if a file cannot be
        written.
        """
        packed = {run_id for run_id, row in self.finished().items() if row["status"] == OK}
        packed -= set(self.incomplete())
        for table in TABLES:
            rows = self.arrow(table, run_ids=packed)
            write_packed(self._packed(table), table, rows, packed)
        # `runs` last, as when they were written: without it, a run's other files are not read.
        for table in sorted(TABLES, key=lambda table: table == "runs"):
            for path in self._files(table):
                if path.stem in packed:
                    path.unlink()
        return len(packed)

    def _ids(self, table: str) -> set[str]:
        """Runs that have a record in a table, if only to say that they have no row."""
        single = {path.stem for path in self._files(table)}
        return single | packed_ids(self._packed(table), table)

    def _packed(self, table: str) -> Path:
        return self.folder / "packed" / f"{table}.parquet"

    def _files(self, table: str) -> list[Path]:
        folder = self.folder / table
        # A hidden file is a writer's temporary one (or some editor's): never a record.
        return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def studies(root: Path) -> list[str]:
    """Names of the studies in a results folder, the most recently changed first."""
    try:
        found = [path for path in root.iterdir() if _is_study(path)]
    except OSError:
        return []
    return [path.name for path in sorted(found, key=lambda path: (-_changed_ns(path), path.name))]


def latest_study(root: Path) -> str:
    """The most recently changed study that has a run. Raises UsageError if there is none."""
    for study in studies(root):
        if (
            any(root.joinpath(study).glob("runs/[!.]*.parquet"))
            or (root / study / "packed" / "runs.parquet").exists()
        ):
            return study
    raise UsageError(f"no study with a run in {root}: start one with `bench run`")


def _is_study(folder: Path) -> bool:
    named = bool(_PLAIN_NAME.fullmatch(folder.name))
    return named and ((folder / "study.json").is_file() or (folder / "runs").is_dir())


def _changed_ns(folder: Path) -> int:
    # Renaming a record into a table's folder changes that folder's time. The study's own folder
    # is left out: rendering a report would make an old study the latest.
    candidates = [folder / "study.json", *(folder / table for table in TABLES)]
    return max(path.stat().st_mtime_ns for path in candidates if path.exists())
