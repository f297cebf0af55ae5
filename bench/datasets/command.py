"""`bench data`: parse, call, print."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Data sets on disk.", add_completion=False, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Data sets on disk."""


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar-100 or tiny-imagenet")],
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of all data sets; else $BENCH_DATA_DIR, else data")
    ] = None,
    url: Annotated[str | None, typer.Option(help="a mirror of the same archive")] = None,
) -> None:
    """Download a data set, check it, unpack it, decode it; goes on where it stopped."""
    from rich.console import Console

    from bench.datasets.location import data_folder
    from bench.datasets.sources import get_source
    from bench.datasets.stages import fetch_and_prepare
    from bench.datasets.watch import ConsoleWatch

    fetch_and_prepare(get_source(name), data_folder(data_dir), ConsoleWatch(Console()), url)
