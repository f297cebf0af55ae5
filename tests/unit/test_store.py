"""The store: all or nothing on disk, and only this program's records back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.errors import UsageError
from bench.files import read_json, write_json_atomically
from bench.schema import SCHEMA_VERSION, TABLES, arrow_schema
from bench.store import (
    StudyStore,
    latest_study,
    studies,
)


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path / "results", "demo")


def recorded(store: StudyStore, run_id: str = "a1", **columns: object) -> StudyStore:
    store.write("runs", run_id, [{"method": "dense", **columns}])
    return store


def usage_error(call, *arguments: object) -> str:
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------- writing, reading


def test_what_is_written_is_read_with_the_schemas_columns(store: StudyStore) -> None:
    steps = [
        {"step": 1, "flags": ["warm_up"], "step_ms": 2.5, "heads_per_layer": [2, 3]},
        {"step": 2, "flags": [], "step_ms": 1.5},
    ]
    path = store.write("steps", "a1", steps)
    recorded(store)
    assert path == store.folder / "steps" / "a1.parquet"
    frame = store.read("steps")
    assert list(frame.columns) == [column.name for column in TABLES["steps"]]
    assert frame["run_id"].tolist() == ["a1", "a1"]
    assert frame["step_ms"].tolist() == [2.5, 1.5]
    assert frame["flags"].map(list).tolist() == [["warm_up"], []]
    assert list(frame["heads_per_layer"][0]) == [2, 3]
    assert frame["heads_per_layer"][1] is None
    assert frame["loss"].isna().all()


def test_an_empty_table_has_all_columns(store: StudyStore) -> None:
    recorded(store)
    for table, columns in TABLES.items():
        frame = store.read(table)
        assert list(frame.columns) == [column.name for column in columns]
        assert len(frame) == (1 if table == "runs" else 0)


def test_rows_of_all_runs_come_together(store: StudyStore) -> None:
    for run_id in ("b2", "a1"):
        store.write_run(run_id, {"runs": [{"seed": 1}], "evals": [{"step": 5}, {"step": 9}]})
    assert store.read("evals")["run_id"].tolist() == ["a1", "a1", "b2", "b2"]
    some = store.arrow("evals", ["step"], ["b2"])
    assert some.to_pydict() == {"run_id": ["b2", "b2"], "step": [5, 9]}


def test_write_run_replaces_everything_of_the_run_before(store: StudyStore) -> None:
    store.write_run("a1", {"runs": [{"status": "ok"}], "evals": [{"step": 5}]})
    store.write_run("a1", {"runs": [{"status": "failed"}]})
    assert len(store.read("evals")) == 0
    assert store.finished()["a1"]["status"] == "failed"


def test_write_run_writes_runs_last(store: StudyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    write = StudyStore.write

    def spy(self: StudyStore, table: str, run_id: str, rows: list) -> Path:
        order.append(table)
        return write(self, table, run_id, rows)

    monkeypatch.setattr(StudyStore, "write", spy)
    store.write_run("a1", {"runs": [{}], "steps": [{"step": 1}]})
    assert sorted(order) == sorted(TABLES)
    assert order[-1] == "runs"


def test_finished_gives_one_row_for_each_run_whatever_its_status(store: StudyStore) -> None:
    assert store.finished() == {}
    recorded(store, "a1", status="ok", seed=3)
    recorded(store, "b2", status="failed", reason="boom")
    rows = store.finished()
    assert set(rows) == {"a1", "b2"}
    assert rows["a1"]["seed"] == 3
    assert rows["b2"]["reason"] == "boom"


@pytest.mark.parametrize(
    ("table", "run_id", "rows", "named"),
    [
        ("steps", "a1", [{"step": 1, "stepp_ms": 2.0}], "stepp_ms"),
        ("steps", "a1", [{"step": "one"}], "steps.step"),
        ("steps", "a1", [{"run_id": "b2", "step": 1}], "b2"),
        ("steps", "../a1", [], "../a1"),
        ("steps", ".a1", [], ".a1"),
        ("runs", "a1", [], "one row"),
        ("runs", "a1", [{}, {}], "one row"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    store: StudyStore, table: str, run_id: str, rows: list, named: str
) -> None:
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        store.write(table, run_id, rows)
    assert not list(store.root.rglob("*.*"))


def test_write_run_refuses_an_unknown_table(store: StudyStore) -> None:
    with pytest.raises(ValueError, match="stepz"):
        store.write_run("a1", {"runs": [{}], "stepz": []})


# ----------------------------------------------------------------------- atomicity


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_writer_that_fails_midway_leaves_the_old_file(
    store: StudyStore, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    recorded(store, seed=1)

    def half(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"PAR1 half a file")
        raise error

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(error):
        recorded(store, seed=2)
    assert [path.name for path in (store.folder / "runs").iterdir()] == ["a1.parquet"]
    assert store.finished()["a1"]["seed"] == 1


def test_a_writer_that_is_killed_midway_leaves_nothing_readable(store: StudyStore) -> None:
    recorded(store)
    program = """
import os, sys
from pathlib import Path
from bench.store import StudyStore
Path.replace = lambda *_: os._exit(9)
StudyStore(Path(sys.argv[1]), "demo").write("runs", "b2", [{"seed": 5}])
"""
    done = subprocess.run([sys.executable, "-c", program, str(store.root)], check=False)
    assert done.returncode == 9
    left = [path.name for path in (store.folder / "runs").iterdir() if path.name[0] == "."]
    assert len(left) == 1
    assert left[0].startswith(".b2.parquet.")
    assert left[0].endswith(".tmp")
    assert set(store.finished()) == {"a1"}
    store.clean_partial()
    assert [path.name for path in (store.folder / "runs").iterdir()] == ["a1.parquet"]


def test_content_reaches_the_disk_before_its_name(
    store: StudyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    sync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("sync"), sync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda a, b: (done.append("rename"), rename(a, b))[1])
    store.write("evals", "a1", [])
    assert done[:2] == ["sync", "rename"]


def test_cleaning_spares_a_living_writer_and_other_files(store: StudyStore) -> None:
    recorded(store)
    runs = store.folder / "runs"
    living = runs / f".b2.parquet.{os.getppid()}.tmp"
    own = runs / f".c3.parquet.{os.getpid()}.tmp"
    others = runs / ".notes.tmp"
    for path in (living, own, others):
        path.write_bytes(b"")
    store.clean_partial()
    assert living.exists()
    assert others.exists()
    assert not own.exists()


def test_leftovers_of_a_run_that_was_never_recorded_are_not_read(store: StudyStore) -> None:
    recorded(store, "a1")
    for run_id in ("a1", "b2"):
        store.write("steps", run_id, [{"step": 1}])
    assert store.read("steps")["run_id"].tolist() == ["a1"]


# ------------------------------------------------------------------- foreign files


def write_table(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def runs_table(metadata: dict[str, str] | None, **columns: list) -> pa.Table:
    table = pa.table({"run_id": ["x9"], "seed": [4], **columns})
    return table.replace_schema_metadata(metadata)


OURS = {"schema_version": str(SCHEMA_VERSION), "table": "runs"}


def test_unknown_columns_are_ignored_and_missing_ones_are_null(store: StudyStore) -> None:
    write_table(store.folder / "runs" / "x9.parquet", runs_table(OURS, colour=["red"]))
    frame = store.read("runs")
    assert "colour" not in frame.columns
    assert frame["seed"].tolist() == [4]
    assert frame["method"].isna().all()


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, "not written by bench"),
        ({"table": "runs"}, "not written by bench"),
        ({"schema_version": "1"}, "not written by bench"),
        ({"schema_version": "new", "table": "runs"}, "not written by bench"),
        ({"schema_version": "1", "table": "steps"}, "'steps'"),
        ({"schema_version": str(SCHEMA_VERSION + 1), "table": "runs"}, "newer"),
    ],
)
def test_foreign_and_newer_files_are_refused(
    store: StudyStore, metadata: dict[str, str] | None, said: str
) -> None:
    recorded(store)
    path = write_table(store.folder / "runs" / "x9.parquet", runs_table(metadata))
    for call in (store.finished, lambda: store.read("runs")):
        message = usage_error(call)
        assert said in message
        assert str(path) in message


@pytest.mark.parametrize("table", ["runs", "steps"])
@pytest.mark.parametrize("content", [b"", b"not parquet", b"PAR1" + b"\0" * 40 + b"PAR1"])
def test_unreadable_files_are_refused(store: StudyStore, table: str, content: bytes) -> None:
    recorded(store)
    path = store.folder / table / "x9.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert str(path) in usage_error(store.read, table)


def test_a_truncated_file_is_refused(store: StudyStore) -> None:
    path = recorded(store).folder / "runs" / "a1.parquet"
    whole = path.read_bytes()
    for size in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert str(path) in usage_error(store.finished)


def test_a_renamed_or_doubled_file_is_refused(store: StudyStore) -> None:
    path = recorded(store).folder / "runs" / "a1.parquet"
    copy = path.with_name("copy.parquet")
    copy.write_bytes(path.read_bytes())
    assert str(copy) in usage_error(store.read, "runs")


def test_a_column_of_another_type_is_refused(store: StudyStore) -> None:
    table = pa.table({"run_id": ["x9"], "seed": ["many"]}).replace_schema_metadata(OURS)
    write_table(store.folder / "runs" / "x9.parquet", table)
    assert "seed" in usage_error(store.read, "runs")


def test_the_footer_names_version_and_table(store: StudyStore) -> None:
    path = store.write("evals", "a1", [])
    metadata = pq.read_schema(path).metadata
    assert metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    assert metadata[b"table"] == b"evals"
    assert pq.read_schema(path).equals(arrow_schema("evals"))


# ------------------------------------------------------------------------- studies


def test_a_missing_study_names_the_nearest(tmp_path: Path) -> None:
    for name in ("digits-demo", "cifar"):
        recorded(StudyStore(tmp_path, name))
    message = usage_error(StudyStore(tmp_path, "digit-demo").read, "runs")
    assert "did you mean 'digits-demo'" in message
    assert "cifar" in message
    assert "did you mean" not in usage_error(StudyStore(tmp_path, "zzz").require)


@pytest.mark.parametrize("folder", ["empty", "absent"])
def test_without_any_study_the_message_says_what_to_run(tmp_path: Path, folder: str) -> None:
    (tmp_path / "empty").mkdir()
    assert "bench run" in usage_error(latest_study, tmp_path / folder)
    assert "bench run" in usage_error(StudyStore(tmp_path / folder, "demo").require)
    assert studies(tmp_path / folder) == []


def test_studies_come_latest_first_and_a_report_changes_nothing(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        store = recorded(StudyStore(tmp_path, name))
        os.utime(store.folder / "runs", (1000 - age, 1000 - age))
    assert studies(tmp_path) == ["new", "middle", "old"]
    old = StudyStore(tmp_path, "old")
    old.report_folder.mkdir()
    (old.report_folder / "report.md").write_text("text")
    (tmp_path / "no-study").mkdir()
    (tmp_path / "file").write_text("text")
    assert studies(tmp_path) == ["new", "middle", "old"]
    write_json_atomically(old.study_file, {})
    assert latest_study(tmp_path) == "old"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".hidden", "-x", "a b", "a\nb"])
def test_study_names_are_plain_file_names(tmp_path: Path, name: str) -> None:
    assert "study name" in usage_error(StudyStore, tmp_path, name)


# ------------------------------------------------------------------------- writable


def test_a_writable_folder_is_created_and_left_empty(store: StudyStore) -> None:
    store.check_writable()
    assert list(store.folder.iterdir()) == []


def test_a_parent_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for root in (tmp_path / "file", tmp_path / "file" / "deeper"):
        store = StudyStore(root, "demo")
        assert str(root) in usage_error(store.check_writable)
        assert str(root) in usage_error(store.write, "evals", "a1", [])
        assert str(root) in usage_error(write_json_atomically, store.study_file, {})
    assert (tmp_path / "file").read_text() == "text"


def test_a_full_disk_is_one_line(store: StudyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert "No space left" in usage_error(store.write, "evals", "a1", [])
    assert list((store.folder / "evals").iterdir()) == []


# ----------------------------------------------------------------------------- JSON


def test_json_is_written_whole_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "study.json"
    write_json_atomically(path, {"densities": [0.1, 0.3], "name": "é"})
    assert read_json(path) == {"densities": [0.1, 0.3], "name": "é"}
    with pytest.raises(ValueError, match="JSON"):
        write_json_atomically(path, {"x": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8"))["name"] == "é"
    assert [p.name for p in path.parent.iterdir()] == ["study.json"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe"])
def test_malformed_json_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "study.json"
    path.write_bytes(content)
    assert str(path) in usage_error(read_json, path)
    assert str(tmp_path / "no.json") in usage_error(read_json, tmp_path / "no.json")


def test_importing_the_store_loads_neither_torch_nor_pandas() -> None:
    program = "import sys, bench.store; print({'torch', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
