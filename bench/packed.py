"""The records of many finished runs in one file per table: smaller, and few files to keep or send.

    results/<study>/packed/<table>.parquet

Such a file names its runs in its footer, as a run may have no row in a table. The file of a single
run, where there is one too, is newer and wins.
"""

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.errors import UsageError
from bench.files import write_aside
from bench.record_files import opened, to_schema
from bench.schema import arrow_schema

_RUN_IDS = b"run_ids"


def packed_ids(path: Path, table: str) -> frozenset[str]:
    """The runs of a packed file; none if it does not exist. Raises UsageError as `read_packed`."""
    if not path.exists():
        return frozenset()
    with opened(path, table) as file:
        return _ids(path, file)


def read_packed(
    path: Path, table: str, wanted: pa.Schema, loaded: Collection[str]
) -> list[pa.Table]:
    """The rows of the `loaded` runs in the wanted schema; nothing if there is no such file.

    Raises UsageError for a file that is unreadable, foreign, mislabelled or newer.
    """
    if not path.exists():
        return []
    with opened(path, table) as file:
        named = _ids(path, file)
        content = file.read(columns=[n for n in wanted.names if n in file.schema_arrow.names])
    ids = content["run_id"].to_pylist()
    if strangers := set(ids) - named:
        raise UsageError(f"{path} has rows of runs that it does not name: {min(strangers)}")
    mine = pa.array([run_id in loaded for run_id in ids], pa.bool_())
    return [to_schema(path, content.filter(mine), wanted)]


def write_packed(path: Path, table: str, rows: pa.Table, run_ids: Collection[str]) -> None:
    """All rows of a table, all or nothing. Raises UsageError if it cannot be written."""
    schema = arrow_schema(table)
    footer = {**(schema.metadata or {}), _RUN_IDS: json.dumps(sorted(run_ids)).encode()}
    content = rows.cast(schema).replace_schema_metadata(footer)
    write_aside(path, lambda temporary: pq.write_table(content, temporary, compression="zstd"))


def _ids(path: Path, file: pq.ParquetFile) -> frozenset[str]:
    footer = file.schema_arrow.metadata or {}
    try:
        return frozenset(json.loads(footer[_RUN_IDS]))
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(
            f"{path} does not name its runs: damaged, or the file of one run"
        ) from error
