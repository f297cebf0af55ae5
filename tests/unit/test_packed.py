"""`bench pack`: the same records in one file per table."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bench.commands import pack_command
from bench.errors import UsageError
from bench.files import write_text_atomically
from bench.lock import exclusive
from bench.runner import pending_runs
from bench.schema import FAILED, TABLES
from bench.spec import StudySpec
from bench.store import StudyStore, latest_study
from bench.study_claim import claim
from bench.study_file import study_spec
from tests.unit.reports_fixture import run_row, tables_of, write_study


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    rows = [run_row("dense", 1.0, seed) for seed in (0, 1)]
    return write_study(tmp_path, [*rows, run_row("static", 0.3, 0, status=FAILED, reason="broke")])


def content(store: StudyStore) -> dict[str, list[dict]]:
    def rows(table: str) -> list[dict]:
        return sorted(store.arrow(table).to_pylist(), key=str)

    return {table: rows(table) for table in TABLES}


def singles(store: StudyStore) -> list[Path]:
    return [path for table in TABLES for path in (store.folder / table).glob("*.parquet")]


def test_the_same_is_read(store: StudyStore) -> None:
    before, failed = content(store), [r for r in store.finished().values() if r["reason"]]
    assert store.pack() == 2
    assert content(store) == before
    assert {path.stem for path in singles(store)} == {failed[0]["run_id"]}, "only what is to repeat"
    assert store.incomplete() == []
    assert latest_study(store.root) == store.study
    one = sorted(store.finished())[0]
    assert set(store.arrow("steps", ("step",), [one])["run_id"].to_pylist()) <= {one}
    assert store.pack() == 2, "again changes nothing"
    assert content(store) == before


def test_a_later_record_wins_and_is_packed_too(store: StudyStore) -> None:
    store.pack()
    again = run_row("dense", 1.0, 0, test_top1_percent=12.5)
    store.write_run(again["run_id"], tables_of(again))
    assert store.finished()[again["run_id"]]["test_top1_percent"] == 12.5
    before = content(store)
    more = run_row("dense", 1.0, 7)
    store.write_run(more["run_id"], tables_of(more))
    assert store.pack() == 3
    assert content(store) != before
    assert store.finished()[again["run_id"]]["test_top1_percent"] == 12.5


def test_interrupted_between_files(store: StudyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(store)
    removed = 0

    def unlink(path: Path) -> None:
        nonlocal removed
        if removed == 3:
            raise KeyboardInterrupt
        removed += 1
        path.rename(path.with_suffix(".gone"))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            store.pack()
    assert content(store) == before
    assert store.incomplete() == []


def test_a_packed_run_is_not_run_again(tmp_path: Path) -> None:
    spec: StudySpec = study_spec(None, {"methods": "dense", "seeds": "0", "name": "demo"})
    store = StudyStore(tmp_path, "demo")
    claim(store, spec)
    (run,) = spec.runs()
    row = run_row("dense", 1.0, 0, run_id=run.run_id)
    store.write_run(run.run_id, tables_of(row))
    store.pack()
    assert pending_runs([run], store) == []


@pytest.mark.parametrize("damage", ["text", "cut", "one run", "another table"])
def test_a_damaged_file_is_one_line(store: StudyStore, damage: str) -> None:
    (single, *_) = (store.folder / "steps").glob("*.parquet")
    whole = single.read_bytes()
    store.pack()
    packed = store.folder / "packed" / "steps.parquet"
    if damage == "text":
        write_text_atomically(packed, "no parquet")
    elif damage == "cut":
        packed.write_bytes(packed.read_bytes()[:-20])
    elif damage == "one run":
        packed.write_bytes(whole)
    else:
        packed.write_bytes((store.folder / "packed" / "evals.parquet").read_bytes())
    with pytest.raises(UsageError) as refused:
        store.arrow("steps")
    assert "\n" not in str(refused.value)
    assert "packed/steps.parquet" in str(refused.value)


def test_rows_of_a_run_that_is_not_named(store: StudyStore) -> None:
    store.pack()
    packed = store.folder / "packed" / "steps.parquet"
    table = pq.read_table(packed)
    footer = {**table.schema.metadata, b"run_ids": b'["other"]'}
    pq.write_table(table.replace_schema_metadata(footer), packed)
    with pytest.raises(UsageError, match="has rows of runs that it does not name"):
        store.arrow("steps")


def test_the_command(store: StudyStore, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="no study 'demonstration'"):
        pack_command("demonstration", store.root, Console())
    with exclusive(store.folder), pytest.raises(UsageError, match="is being run"):
        pack_command(store.study, store.root, Console())
    pack_command(store.study, store.root, Console(width=200))
    assert "2 runs of study" in capsys.readouterr().out
