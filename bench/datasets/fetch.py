"""Downloads an archive: goes on where it stopped, and keeps nothing that is not the published file.

What has arrived lies in `ARCHIVE.part`; it gets its own name once size and checksums are right.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from bench import __version__
from bench.datasets.sources import Source
from bench.datasets.verify import require_published, what_differs
from bench.errors import UsageError
from bench.files import cannot, one_line

_CHUNK_BYTES = 1 << 18
_TIMEOUT_S = 30.0

Advance = Callable[[int], None]
"""Told how many more bytes (or images) are done."""


def download(source: Source, folder: Path, advance: Advance, url: str | None = None) -> Path:
    """The archive in `folder`, downloaded as far as it is not there yet.

    Args:
        url: a mirror of the same file; its size and checksums are held to the published ones.

    Raises:
        UsageError: the address cannot be reached, the transfer broke off (the same call goes on
            there), or what came is not the published file (it is removed).
    """
    archive = folder / source.archive
    if archive.exists():
        require_published(archive, source)
        advance(source.archive_bytes)
        return archive
    url = source.url if url is None else url
    _require_address(url)
    part = archive.with_name(f"{archive.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
        advance(min(have, source.archive_bytes))
        if have < source.archive_bytes:
            _transfer(source, url, part, have, advance)
        _keep(part, archive, source)
    except OSError as error:
        raise UsageError(cannot("write", part, error)) from error
    return archive


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that do not close, a port that cannot be
        sound = False
    if not sound or not url.isascii():
        raise UsageError(f"--url {url!r}: an address of http or https it must be, in ASCII")


def _transfer(source: Source, url: str, part: Path, have: int, advance: Advance) -> None:
    with _open(source, url, part, have) as response:
        start = _start(response, source, url)
        if start not in (0, have):
            raise UsageError(f"{url} sends from byte {start:,} where {have:,} was asked for")
        advance(start - have)  # a server that cannot resume begins again
        with part.open("ab" if start else "wb") as file:
            while chunk := _read(response, url):
                file.write(chunk)
                advance(len(chunk))
                if file.tell() > source.archive_bytes:
                    break  # never fill the disk with something else
    if (have := part.stat().st_size) < source.archive_bytes:
        raise _broken_off(url, f"{have:,} of {source.archive_bytes:,} bytes arrived")


def _open(source: Source, url: str, part: Path, have: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"barter-bench/{__version__}"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        return urllib.request.urlopen(  # the scheme was checked
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S
        )
    except urllib.error.HTTPError as error:
        error.close()
        raise UsageError(f"{url} answers {error.code} {error.reason}: {_by_hand(part)}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = one_line(getattr(error, "reason", error))  # pyright: ignore[reportArgumentType]
        raise UsageError(f"cannot reach {url} ({reason}): {_by_hand(part, source.url)}") from error


def _start(response: http.client.HTTPResponse, source: Source, url: str) -> int:
    """The first byte that the server sends, once it is certain that it has a file of that size."""
    total, start = response.headers.get("Content-Length"), 0
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        if not found:
            raise UsageError(f"{url} resumes without saying where: remove the .part file")
        start, total = int(found[1]), found[2]
    if total is not None and int(total) != source.archive_bytes:
        raise UsageError(
            f"{url} has {int(total):,} bytes, the published {source.title} has"
            f" {source.archive_bytes:,}: nothing was downloaded"
        )
    return start


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _broken_off(url, one_line(error)) from error


def _keep(part: Path, archive: Path, source: Source) -> None:
    wrong = what_differs(part, source)
    if wrong:
        part.unlink()
        raise UsageError(f"what was downloaded {wrong}: it was removed; try another --url")
    part.replace(archive)


def _broken_off(url: str, what: str) -> UsageError:
    return UsageError(f"the download of {url} stopped ({what}): the same command goes on there")


def _by_hand(part: Path, url: str | None = None) -> str:
    what = f"download {url} on another machine" if url else "get the archive elsewhere"
    target = part.with_suffix("")
    return f"without a network, {what}, put it to {target} and give the same command"
