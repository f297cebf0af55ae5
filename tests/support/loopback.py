"""A web server on this machine alone, as good or bad as a test wants it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server gives, and what it was asked for."""

    files: dict[str, bytes]
    resumes: bool = True
    """Whether it knows ranges."""
    says_size: bool = True
    breaks_after: int | None = None
    """Bytes of a body after which it hangs up, without a word."""
    shifted: int = 0
    """By how much its ranges begin too late."""
    address: str = ""
    ranges: list[str | None] = field(default_factory=list)
    """The Range header of every request."""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """The site at `site.address`, as long as this lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        site.address = f"http://127.0.0.1:{server.server_port}"
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def _answer(request: BaseHTTPRequestHandler, site: Site) -> None:
    wanted = request.headers.get("Range")
    site.ranges.append(wanted)
    body = site.files.get(request.path.lstrip("/"))
    if body is None:
        request.send_error(404)
        return
    start = 0
    if wanted and site.resumes:
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) + site.shifted
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    else:
        request.send_response(200)
    if site.says_size:
        request.send_header("Content-Length", str(len(body) - start))
    request.end_headers()
    end = None if site.breaks_after is None else start + site.breaks_after
    request.wfile.write(body[start:end])
