"""From what a user has to arrays: made once, checked, made again when they are no good."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench.datasets import cache
from bench.datasets import prepare as stage
from bench.datasets.cache import Decoded
from bench.datasets.prepare import prepare
from bench.datasets.sources import Source
from bench.datasets.split import validation_rows
from bench.datasets.watch import ConsoleWatch
from bench.errors import UsageError
from tests.support.archives import labels, make_archive, make_folder, pictures, small_source

SOURCE = small_source("cifar-100", classes=5, train=50, test=10)
TINY = small_source("tiny-imagenet", classes=5, train=50, test=10)


def prepared(folder: Path, source: Source = SOURCE) -> tuple[Decoded, str]:
    """The decoded copy, and what was said."""
    text = io.StringIO()
    return prepare(source, folder, ConsoleWatch(Console(file=text, width=200))), text.getvalue()


@pytest.mark.parametrize("source", [SOURCE, TINY])
def test_arrays(source: Source, tmp_path: Path) -> None:
    make_folder(source, tmp_path)
    decoded, _ = prepared(tmp_path, source)
    size = source.image_size
    assert decoded.array("train-images").shape == (50, size, size, 3)
    assert decoded.array("test-images").shape == (10, size, size, 3)
    assert decoded.array("test-labels").tolist() == labels(10, 5)
    found = decoded.array("train-labels")
    assert np.array_equal(decoded.array("validation-rows"), validation_rows(found, 0.1, 0))
    assert isinstance(decoded.array("train-images"), np.memmap)
    if source is SOURCE:
        assert np.array_equal(decoded.array("train-images"), pictures(50, 32))


def test_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(SOURCE, tmp_path)
    first, said = prepared(tmp_path)
    assert said == "decoding CIFAR-100: 60 images\n"
    monkeypatch.setattr(stage, "_READERS", {})
    assert prepared(tmp_path) == (first, "")


def test_the_folder_itself_may_be_named(tmp_path: Path) -> None:
    folder = make_folder(SOURCE, tmp_path)
    assert prepared(folder)[0] == prepared(tmp_path)[0]


def test_the_originals_may_go_once_there_is_a_copy(tmp_path: Path) -> None:
    folder = make_folder(SOURCE, tmp_path)
    first, _ = prepared(tmp_path)
    (folder / "train").unlink()
    assert prepared(tmp_path) == (first, "")


@pytest.mark.parametrize("source", [SOURCE, TINY])
def test_from_the_archive_alone(source: Source, tmp_path: Path) -> None:
    source = make_archive(source, tmp_path / "archive")
    make_folder(source, tmp_path / "folder")
    one, said = prepared(tmp_path / "archive", source)
    assert said.startswith("unpacking ")
    assert one.identity == prepared(tmp_path / "folder", source)[0].identity


def test_a_tampered_archive_is_not_unpacked(tmp_path: Path) -> None:
    source = replace(make_archive(SOURCE, tmp_path), sha256="0" * 64)
    with pytest.raises(UsageError, match="is not the published CIFAR-100"):
        prepared(tmp_path, source)
    assert [path.name for path in tmp_path.iterdir()] == [source.archive]


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGES: list[Callable[[Path], object]] = [
    lambda folder: _flip(folder / "train-images.npy"),
    lambda folder: _flip(folder / "validation-rows.npy"),
    lambda folder: (folder / "test-labels.npy").unlink(),
    lambda folder: (folder / "manifest.json").unlink(),
    lambda folder: (folder / "manifest.json").write_text("{}"),
    lambda folder: (folder / "manifest.json").write_text("[3]"),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_made_again(damage: Callable[[Path], object], tmp_path: Path) -> None:
    make_folder(SOURCE, tmp_path)
    first, _ = prepared(tmp_path)
    before = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    damage(first.folder)
    again, said = prepared(tmp_path)
    assert said.startswith("decoding CIFAR-100")
    assert again == first
    assert {path.name: path.read_bytes() for path in first.folder.iterdir()} == before
    assert not list(first.folder.parent.glob(".*")), "nothing aside is left"


def test_a_damaged_copy_without_the_originals_is_no_data(tmp_path: Path) -> None:
    folder = make_folder(SOURCE, tmp_path)
    _flip(prepared(tmp_path)[0].folder / "train-images.npy")
    (folder / "train").unlink()
    with pytest.raises(UsageError, match="there is no CIFAR-100 in"):
        prepared(tmp_path)


def test_another_split_needs_another_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(SOURCE, tmp_path)
    first, _ = prepared(tmp_path)
    monkeypatch.setattr(cache, "SPLIT_SEED", 1)
    second, said = prepared(tmp_path)
    assert said.startswith("decoding")
    assert second.identity != first.identity


def test_identity_is_the_content(tmp_path: Path) -> None:
    folder = make_folder(SOURCE, tmp_path / "one")
    other = make_folder(SOURCE, tmp_path / "two")
    content = bytearray((other / "test").read_bytes())
    content[len(content) // 2] ^= 1
    (other / "test").write_bytes(content)
    one, two = prepared(folder)[0].identity, prepared(other)[0].identity
    assert one.startswith("cifar-100:")
    assert one != two


@pytest.mark.parametrize("there", ["nothing", "empty", "another"])
def test_missing_data(there: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    if there != "nothing":
        folder.mkdir()
    if there == "another":
        prepared(make_folder(TINY, folder), TINY)
        folder = folder / TINY.folder
    with pytest.raises(UsageError, match=r"no CIFAR-100 in .*bench data fetch cifar-100"):
        prepared(folder)


def test_damaged_data_leave_no_copy(tmp_path: Path) -> None:
    folder = make_folder(SOURCE, tmp_path)
    (folder / "test").write_bytes(b"")
    with pytest.raises(UsageError, match="is no part of CIFAR-100"):
        prepared(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["file.txt~", "meta", "test", "train"]
