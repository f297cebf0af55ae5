"""Archives that try to leave their folder, and others that are no good."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from bench.datasets.sources import SOURCES, Source
from bench.datasets.unpack import unpack
from bench.errors import UsageError
from tests.support.archives import as_published, make_archive, small_source

CIFAR, TINY = SOURCES["cifar-100"], SOURCES["tiny-imagenet"]


def tar_of(folder: Path, *members: tarfile.TarInfo) -> Source:
    path = folder / CIFAR.archive
    with tarfile.open(path, "w:gz") as packed:
        for member in (tarfile.TarInfo(f"{CIFAR.folder}/train"), *members):
            packed.addfile(member, io.BytesIO(b""))
    return as_published(CIFAR, path)


def zip_of(folder: Path, *members: zipfile.ZipInfo | str) -> Source:
    path = folder / TINY.archive
    with zipfile.ZipFile(path, "w") as packed:
        for member in (f"{TINY.folder}/wnids.txt", *members):
            packed.writestr(member, "x")
    return as_published(TINY, path)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def linked(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = 0o120777 << 16
    return made


def refused(source: Source, folder: Path, message: str) -> None:
    before = sorted(folder.rglob("*"))
    with pytest.raises(UsageError, match=message):
        unpack(folder / source.archive, source, folder)
    assert sorted(folder.rglob("*")) == before, "nothing was written"


@pytest.mark.parametrize("name", ["cifar-100", "tiny-imagenet"])
def test_true_formats(name: str, tmp_path: Path) -> None:
    source = make_archive(small_source(name, 5, 20, 10), tmp_path)
    top = unpack(tmp_path / source.archive, source, tmp_path)
    assert top == tmp_path / source.folder
    assert (top / source.marker).is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [source.archive, source.folder]
    )


@pytest.mark.parametrize(
    "name", ["../outside", "cifar-100-python/../../outside", "/tmp/outside", "C:\\outside", "..\\x"]
)
def test_members_that_leave_the_folder(name: str, tmp_path: Path) -> None:
    refused(tar_of(tmp_path, member(name)), tmp_path, "would leave the folder; nothing was unpack")
    (tmp_path / CIFAR.archive).unlink()
    refused(zip_of(tmp_path, name), tmp_path, "would leave the folder; nothing was unpacked")


@pytest.mark.parametrize(
    "made",
    [
        member("cifar-100-python/test", tarfile.SYMTYPE, "/etc/passwd"),
        member("cifar-100-python/test", tarfile.LNKTYPE, "cifar-100-python/train"),
        member("cifar-100-python/test", tarfile.FIFOTYPE),
        member("cifar-100-python/test", tarfile.CHRTYPE),
    ],
)
def test_links_and_devices(made: tarfile.TarInfo, tmp_path: Path) -> None:
    refused(tar_of(tmp_path, made), tmp_path, "is a link or device, no file")


def test_links_in_a_zip(tmp_path: Path) -> None:
    source = zip_of(tmp_path, linked("tiny-imagenet-200/val"))
    refused(source, tmp_path, "is a link or device, no file")


def test_another_archive_is_not_even_opened(tmp_path: Path) -> None:
    tar_of(tmp_path, member("../outside"))
    refused(CIFAR, tmp_path, "cut short or another file")


def test_truncated(tmp_path: Path) -> None:
    whole = make_archive(small_source("cifar-100", 5, 20, 10), tmp_path)
    path = tmp_path / whole.archive
    path.write_bytes(path.read_bytes()[:-2000])
    refused(whole, tmp_path, "cut short or another file")
    # Even if its checksum were the published one:
    refused(as_published(whole, path), tmp_path, "is damaged")


@pytest.mark.parametrize("source", [CIFAR, TINY])
def test_no_archive_at_all(source: Source, tmp_path: Path) -> None:
    path = tmp_path / source.archive
    path.write_bytes(b"<html>404</html>")
    refused(as_published(source, path), tmp_path, "is damaged")


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    source = make_archive(small_source("cifar-100", 5, 20, 10), tmp_path)
    (tmp_path / source.folder).mkdir()
    (tmp_path / source.folder / "notes").write_text("mine")
    refused(source, tmp_path, "cifar-100-python is there, but has no train: remove it first")


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / TINY.archive
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("holiday/photo", "x")
    refused(as_published(TINY, path), tmp_path, "has no folder tiny-imagenet-200")
