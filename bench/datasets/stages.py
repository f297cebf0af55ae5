"""All of `bench data fetch`: what is there already is kept, the rest is done."""

from pathlib import Path

from bench.datasets.fetch import download
from bench.datasets.prepare import has_folder, prepare
from bench.datasets.sources import Source
from bench.datasets.watch import ConsoleWatch


def fetch_and_prepare(
    source: Source, folder: Path, watch: ConsoleWatch, url: str | None = None
) -> None:
    """Leaves the data set in `folder`, ready for runs, and says so.

    Raises:
        UsageError: it cannot be had, is not the published one, or cannot be written.
    """
    if not has_folder(source, folder):
        with watch.counting(f"fetching {source.title}", source.archive_bytes, "bytes") as advance:
            download(source, folder, advance, url)
    decoded = prepare(source, folder, watch)
    held_out = len(decoded.array("validation-rows"))
    train, test = source.images["train"] - held_out, source.images["test"]
    watch.said(
        f"{source.title} is ready in {decoded.folder.parent}: {train:,} training, {held_out:,}"
        f" validation and {test:,} test images"
    )
