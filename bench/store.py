"""The records on disk: one parquet file per run and table, written aside and renamed.

    results/<study>/{runs,steps,evals,updates,telemetry}/<run_id>.parquet
    results/<study>/study.json
    results/<study>/report/

A run is recorded once its file in `runs/` exists, so that one is written last; whatever an
interrupted run left in the other folders is not read. pandas is imported only by `read`.
"""

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.errors import UsageError
from bench.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=-]*")
_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)\.tmp")


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
    def study_file(self) -> Path:
        return self.folder / "study.json"

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
        content = _to_arrow(table, run_id, rows)
        path = self.folder / table / f"{run_id}.parquet"
        _write_aside(path, lambda temporary: pq.write_table(content, temporary))
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
            raise UsageError(_cannot("write to", self.folder, error)) from error

    def clean_partial(self) -> None:
        """Remove what writers that died left behind; a living process keeps its own."""
        for folder in (self.folder, *(self.folder / table for table in TABLES)):
            for path in folder.glob(".*.tmp"):
                match = _TEMPORARY.fullmatch(path.name)
                if match and not _other_process_lives(int(match["pid"])):
                    path.unlink(missing_ok=True)

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
        loaded = {path.stem for path in self._files("runs")}
        if run_ids is not None:
            loaded &= set(run_ids)
        parts = [_read_file(path, table, wanted, loaded) for path in self._files(table)]
        return pa.concat_tables([_no_rows(wanted), *parts])

    def read(self, table: str) -> "pd.DataFrame":
        """`arrow(table)` as a frame: nulls are NaN or None, lists are arrays."""
        return self.arrow(table).to_pandas()

    def finished(self) -> dict[str, dict[str, Any]]:
        """The `runs` row of every recorded run, whatever its status; empty for a new study."""
        if not self.exists():
            return {}
        return {row["run_id"]: row for row in self.arrow("runs").to_pylist()}

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
    """The most recently changed study. Raises UsageError if there is none."""
    there = studies(root)
    if not there:
        raise UsageError(f"no study in {root}: start one with `bench run`")
    return there[0]


def write_json_atomically(path: Path, obj: Any) -> None:
    """Write strict JSON beside the path and rename it. Raises UsageError if it cannot."""
    text = json.dumps(obj, indent=2, allow_nan=False) + "\n"
    _write_aside(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises UsageError if it is missing or malformed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(_cannot("read", path, error)) from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON: {_one_line(error)}") from error


# -------------------------------------------------------------------- helpers


def _to_arrow(table: str, run_id: str, rows: Sequence[Row]) -> pa.Table:
    schema = arrow_schema(table)
    for row in rows:
        unknown = row.keys() - set(schema.names)
        if unknown:
            raise ValueError(f"table {table} has no column {', '.join(sorted(unknown))}")
        if row.get("run_id", run_id) != run_id:
            raise ValueError(f"a row of run {row['run_id']!r} in the file of run {run_id!r}")
    arrays = []
    for field in schema:
        missing = run_id if field.name == "run_id" else None
        values = [row.get(field.name, missing) for row in rows]
        try:
            arrays.append(pa.array(values, type=field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(f"{table}.{field.name}: {_one_line(error)}") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_file(path: Path, table: str, wanted: pa.Schema, loaded: set[str]) -> pa.Table:
    """One file's rows in the wanted schema; none if its run is not to be loaded.

    Every file is opened, so that a foreign one is reported rather than passed over.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check_footer(path, table, file.schema_arrow.metadata or {})
            if path.stem not in loaded:
                return _no_rows(wanted)
            there = [name for name in wanted.names if name in file.schema_arrow.names]
            content = file.read(columns=there)
    except (pa.ArrowException, OSError) as error:
        reason = f"damaged or foreign ({_one_line(error)})"
        raise UsageError(f"cannot read {path}, {reason}: move it out of the results") from error
    ids = content["run_id"].unique().to_pylist() if "run_id" in there else [None]
    if ids not in ([], [path.stem]) or (table == "runs" and content.num_rows != 1):
        raise UsageError(f"{path} does not hold exactly the rows of run {path.stem}")
    columns = []
    for field in wanted:
        if field.name not in there:
            columns.append(pa.nulls(content.num_rows, field.type))
            continue
        try:
            columns.append(content[field.name].cast(field.type))
        except pa.ArrowException as error:
            raise UsageError(f"{path}: column {field.name}: {_one_line(error)}") from error
    return pa.Table.from_arrays(columns, schema=wanted.remove_metadata())


def _no_rows(schema: pa.Schema) -> pa.Table:
    # `Schema.empty_table` would import pandas, which takes longer than all else here.
    return pa.Table.from_batches([], schema=schema.remove_metadata())


def _check_footer(path: Path, table: str, footer: Mapping[bytes, bytes]) -> None:
    written_as = footer.get(b"table", b"").decode(errors="replace")
    version = footer.get(b"schema_version", b"").decode(errors="replace")
    if not written_as or not version.isdecimal():
        raise UsageError(f"{path} was not written by bench: move it out of the results folder")
    if written_as != table:
        raise UsageError(f"{path} holds the table {written_as!r}, not {table!r}")
    if int(version) > SCHEMA_VERSION:
        raise UsageError(
            f"{path} has schema version {version}, newer than this program's {SCHEMA_VERSION}: "
            "read it with a newer bench"
        )


def _write_aside(path: Path, write: Any) -> None:
    """Call `write(temporary path)`, force it to disk, then rename it to `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(temporary)
            _sync(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _sync(path.parent)
    except OSError as error:
        raise UsageError(_cannot("write", path, error)) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_study(folder: Path) -> bool:
    named = bool(_PLAIN_NAME.fullmatch(folder.name))
    return named and ((folder / "study.json").is_file() or (folder / "runs").is_dir())


def _changed_ns(folder: Path) -> int:
    # Renaming a record into a table's folder changes that folder's time. The study's own folder
    # is left out: rendering a report would make an old study the latest.
    candidates = [folder / "study.json", *(folder / table for table in TABLES)]
    return max(path.stat().st_mtime_ns for path in candidates if path.exists())


def _other_process_lives(pid: int) -> bool:
    # Our own id belongs to a dead predecessor here: in containers ids come round soon. Without
    # POSIX signals there is no harmless way to ask.
    if pid == os.getpid() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _cannot(what: str, path: Path, error: OSError) -> str:
    return f"cannot {what} {path}: {error.strerror or _one_line(error)}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
