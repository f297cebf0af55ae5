"""One record file: rows to a parquet table of the schema, and back, checked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.errors import UsageError
from bench.files import one_line
from bench.schema import SCHEMA_VERSION, arrow_schema

Row = Mapping[str, Any]


def to_arrow(table: str, run_id: str, rows: Sequence[Row]) -> pa.Table:
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
            raise ValueError(f"{table}.{field.name}: {one_line(error)}") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def read_file(path: Path, table: str, wanted: pa.Schema, loaded: set[str]) -> pa.Table:
    """One run's rows in the wanted schema; none if that run is not to be loaded.

    Every file is opened, so that a foreign one is reported rather than passed over.
    """
    with opened(path, table) as file:
        if path.stem not in loaded:
            return no_rows(wanted)
        there = [name for name in wanted.names if name in file.schema_arrow.names]
        content = file.read(columns=there)
    ids = content["run_id"].unique().to_pylist() if "run_id" in there else [None]
    if ids not in ([], [path.stem]) or (table == "runs" and content.num_rows != 1):
        raise UsageError(f"{path} does not hold exactly the rows of run {path.stem}")
    return to_schema(path, content, wanted)


@contextmanager
def opened(path: Path, table: str) -> Iterator[pq.ParquetFile]:
    """A record file of that table. Raises UsageError for any other, and if reading it fails."""
    try:
        with pq.ParquetFile(path) as file:
            _check_footer(path, table, file.schema_arrow.metadata or {})
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = f"damaged or foreign ({one_line(error)})"
        raise UsageError(f"cannot read {path}, {reason}: move it out of the results") from error


def to_schema(path: Path, content: pa.Table, wanted: pa.Schema) -> pa.Table:
    """A file's rows in the wanted types and order; what it lacks is null."""
    columns = []
    for field in wanted:
        if field.name not in content.column_names:
            columns.append(pa.nulls(content.num_rows, field.type))
            continue
        try:
            columns.append(content[field.name].cast(field.type))
        except pa.ArrowException as error:
            raise UsageError(f"{path}: column {field.name}: {one_line(error)}") from error
    return pa.Table.from_arrays(columns, schema=wanted.remove_metadata())


def no_rows(schema: pa.Schema) -> pa.Table:
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
