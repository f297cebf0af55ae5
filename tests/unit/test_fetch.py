"""Downloads from loopback: resumed, checked, and refused in one line."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.datasets.fetch import download
from bench.datasets.sources import SOURCES, Source, get_source
from bench.errors import UsageError
from tests.support.archives import as_published
from tests.support.loopback import Site, serving

CONTENT = bytes(range(256)) * 4000
HALF = len(CONTENT) // 2


@pytest.fixture
def source(tmp_path: Path) -> Source:
    original = tmp_path / "original"
    original.write_bytes(CONTENT)
    return as_published(SOURCES["cifar-100"], original)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def fetched(source: Source, folder: Path, site: Site) -> tuple[Path, int]:
    """The archive, and how many bytes were reported as done."""
    steps: list[int] = []
    archive = download(source, folder, steps.append, f"{site.address}/{source.archive}")
    return archive, sum(steps)


def site_of(source: Source, content: bytes = CONTENT) -> Site:
    return Site({source.archive: content})


def part_of(source: Source, folder: Path, content: bytes) -> Path:
    folder.mkdir()
    part = folder / f"{source.archive}.part"
    part.write_bytes(content)
    return part


def test_a_whole_download(source: Source, folder: Path) -> None:
    with serving(site_of(source)) as site:
        archive, done = fetched(source, folder, site)
    assert archive.read_bytes() == CONTENT
    assert done == len(CONTENT)
    assert [path.name for path in folder.iterdir()] == [source.archive], "no partial file is left"


def test_what_is_there_is_not_fetched_again(source: Source, folder: Path) -> None:
    folder.mkdir()
    (folder / source.archive).write_bytes(CONTENT)
    with serving(site_of(source)) as site:
        assert fetched(source, folder, site)[1] == len(CONTENT)
    assert site.ranges == []


def test_what_is_there_is_checked(source: Source, folder: Path) -> None:
    folder.mkdir()
    (folder / source.archive).write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(UsageError, match=r"not the published CIFAR-100 .* nothing was unpacked"):
        fetched(source, folder, site_of(source))


def test_a_broken_download_goes_on_where_it_stopped(source: Source, folder: Path) -> None:
    with serving(site_of(source)) as site:
        site.breaks_after = HALF
        with pytest.raises(UsageError, match=f"{HALF:,} of {len(CONTENT):,} bytes .* same command"):
            fetched(source, folder, site)
        site.breaks_after = None
        archive, done = fetched(source, folder, site)
    assert site.ranges == [None, f"bytes={HALF}-"]
    assert archive.read_bytes() == CONTENT
    assert done == len(CONTENT)


def test_a_server_that_cannot_resume_sends_all_again(source: Source, folder: Path) -> None:
    part_of(source, folder, b"\0" * HALF)
    with serving(site_of(source)) as site:
        site.resumes = False
        archive, done = fetched(source, folder, site)
    assert site.ranges == [f"bytes={HALF}-"]
    assert archive.read_bytes() == CONTENT
    assert done == len(CONTENT)


def test_a_range_that_begins_elsewhere_is_refused(source: Source, folder: Path) -> None:
    part = part_of(source, folder, CONTENT[:HALF])
    with serving(site_of(source)) as site:
        site.shifted = 5
        with pytest.raises(UsageError, match=f"sends from byte {HALF + 5:,} where {HALF:,}"):
            fetched(source, folder, site)
    assert part.read_bytes() == CONTENT[:HALF]


@pytest.mark.parametrize("kept", [len(CONTENT), len(CONTENT) + 1])
def test_a_partial_file_that_has_all_bytes_is_only_checked(
    source: Source, folder: Path, kept: int
) -> None:
    part = part_of(source, folder, (CONTENT + b"x")[:kept])
    with serving(site_of(source)) as site:
        if kept == len(CONTENT):
            assert fetched(source, folder, site)[0].read_bytes() == CONTENT
        else:
            with pytest.raises(UsageError, match="cut short or another file"):
                fetched(source, folder, site)
    assert site.ranges == []
    assert not part.exists()


def test_a_tampered_file_of_the_right_size_is_not_kept(source: Source, folder: Path) -> None:
    with (
        serving(site_of(source, CONTENT[:-1] + b"x")) as site,
        pytest.raises(UsageError, match=r"is not the published CIFAR-100 \(md5 .*: it was removed"),
    ):
        fetched(source, folder, site)
    assert list(folder.iterdir()) == []


def test_both_checksums_count(source: Source, folder: Path) -> None:
    """Two files of one md5 can be made; the sha256 tells them apart."""
    other = replace(source, sha256="0" * 64)
    with serving(site_of(source)) as site, pytest.raises(UsageError, match=r"\(sha256 "):
        fetched(other, folder, site)


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x"])
def test_a_file_of_another_size_is_not_downloaded(
    source: Source, folder: Path, content: bytes
) -> None:
    with (
        serving(site_of(source, content)) as site,
        pytest.raises(UsageError, match=f"has {len(content):,} bytes.*nothing was downloaded"),
    ):
        fetched(source, folder, site)
    assert list(folder.iterdir()) == []


def test_an_endless_file_does_not_fill_the_disk(source: Source, folder: Path) -> None:
    with serving(site_of(source, CONTENT * 20)) as site:
        site.says_size = False
        done: list[int] = []
        with pytest.raises(UsageError, match="cut short or another file"):
            download(source, folder, done.append, f"{site.address}/{source.archive}")
    assert sum(done) < 2 * len(CONTENT)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["", "http://[::1", "http://x:99999/", "http://x/\u00e4", "ftp://x/"]
)
def test_what_is_no_address_is_refused(source: Source, folder: Path, url: str) -> None:
    with pytest.raises(UsageError, match="an address of http or https"):
        download(source, folder, lambda _: None, url)


def test_an_address_that_has_no_such_file(source: Source, folder: Path) -> None:
    with (
        serving(Site({})) as site,
        pytest.raises(UsageError, match=r"answers 404 Not Found: .*cifar-100-python.tar.gz"),
    ):
        fetched(source, folder, site)


def test_without_a_network_it_says_what_to_do(source: Source, folder: Path) -> None:
    with serving(Site({})) as site:
        pass  # nobody listens there any more
    with pytest.raises(UsageError, match="cannot reach") as caught:
        fetched(source, folder, site)
    message = str(caught.value)
    assert "without a network, download https://www.cs.toronto.edu/" in message
    assert f"put it to {folder / source.archive} and give the same command" in message


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "cifar.tar.gz"])
def test_only_web_addresses(source: Source, folder: Path, url: str) -> None:
    with pytest.raises(UsageError, match="http or https it must be"):
        download(source, folder, lambda _: None, url)


def test_a_folder_that_cannot_be_written(source: Source, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        download(source, tmp_path / "file", lambda _: None, "http://127.0.0.1:1/x")


def test_the_published_figures() -> None:
    assert get_source("cifar-100").archive_bytes == 169_001_437
    assert get_source("tiny-imagenet").archive_bytes == 248_100_043
    for source in SOURCES.values():
        assert len(source.md5) == 32
        assert len(source.sha256) == 64
    with pytest.raises(UsageError, match="unknown data set 'cifar100'; did you mean cifar-100"):
        get_source("cifar100")
