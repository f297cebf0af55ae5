"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

import os
import sys
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from bench import __version__
from bench.cli_options import (
    DEFAULT_RESULTS,
    Attention,
    Autocast,
    BatchSize,
    Compile,
    Console,
    CudaGraphs,
    Density,
    Device,
    Gpu,
    Methods,
    Optimizer,
    Recompute,
    Results,
    Steps,
    StudyFile,
    Tf32,
    Threads,
    Workload,
)
from bench.cli_run import run
from bench.datasets.command import app as data_app
from bench.errors import UsageError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Compares dynamic sparse training methods by what they really cost and really buy.",
)
app.command()(run)
app.add_typer(data_app, name="data")


@app.command()
def report(
    study: Annotated[str | None, typer.Argument(help="default: the latest study")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="print ratios across settings, too, marked")
    ] = False,
    match: Annotated[
        str | None,
        typer.Option(help="accuracy at equal cost instead: flops, time, steps, memory or energy"),
    ] = None,
    target_top1: Annotated[
        str | None,
        typer.Option(help="of --match, e.g. 90%: at what cost; else what all reach on average"),
    ] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Render a study's tables and plots to the terminal and into its report folder."""
    from bench.commands import match_command, report_command

    if match is None and target_top1 is None:
        report_command(study, results, Console(), force)
    else:
        match_command(study, results, Console(), match, target_top1, force)


@app.command()
def plan(
    file: StudyFile = None,
    workload: Workload = None,
    methods: Methods = None,
    density: Density = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    tf32: Tf32 = None,
    autocast: Autocast = None,
    compiled: Compile = None,
    attention: Attention = None,
    optimizer: Optimizer = None,
    threads: Threads = None,
    recompute: Recompute = None,
    cuda_graphs: CudaGraphs = None,
    as_json: Annotated[bool, typer.Option("--json", help="print a list of rows")] = False,
) -> None:
    """Budgets, transfers, MACs and schedules of a study, without running it."""
    from bench.commands import plan_command

    given = {
        "workload": workload,
        "methods": methods,
        "density": density,
        "steps": steps,
        "batch_size": batch_size,
        "tf32": tf32,
        "autocast": autocast,
        "compile": compiled,
        "attention": attention,
        "optimizer": optimizer,
        "threads": threads,
        "recompute": recompute,
        "cuda_graphs": cuda_graphs,
    }
    plan_command(file, given, as_json, Console())


@app.command()
def check(
    baseline: Annotated[
        str | None, typer.Option(help="file, or folder under the results folder")
    ] = None,
    max_slowdown: Annotated[str, typer.Option(help="e.g. 3%: what counts as a regression")] = "3%",
    update: Annotated[bool, typer.Option("--update", help="write the baseline instead")] = False,
    workload: Workload = None,
    methods: Methods = None,
    density: Density = None,
    batch_size: BatchSize = None,
    device: Device = None,
    gpu: Gpu = None,
    output: Annotated[Path | None, typer.Option(help="folder for Markdown and JSON")] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """The CI gate on step time: 0 fine, 1 regression, 2 usage, 3 undecided, 4 not measured."""
    from bench.gate.command import check_command

    given = {
        "workload": workload,
        "methods": methods,
        "density": density,
        "batch_size": batch_size,
        "device": device,
        "gpu": gpu,
    }
    code = check_command(baseline, given, max_slowdown, update, results, output, Console())
    raise typer.Exit(code)


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help="study: name, or path of its folder")],
    after: Annotated[str, typer.Argument(help="study to set beside it, likewise")],
    force: Annotated[
        bool, typer.Option("--force", help="compare times under unlike conditions too")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="folder for Markdown, CSV and JSON")] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """What changed between two studies: step time, counts, accuracy. Never fails for a result."""
    from bench.compare import compare_command

    compare_command(before, after, results, force, output, Console())


@app.command()
def status(
    study: Annotated[str | None, typer.Argument(help="default: the one changed last")] = None,
    results: Results = DEFAULT_RESULTS,
) -> None:
    """Every run of a study: finished, failed, under way, or still to do."""
    from bench.status import status_command

    status_command(study, results, Console())


@app.command("list")
def list_() -> None:
    """Methods, workloads and experiments."""
    from bench.commands import list_command

    list_command(Console())


@app.command()
def doctor(results: Results = DEFAULT_RESULTS) -> None:
    """What this machine can measure, and what not."""
    from bench.commands import doctor_command

    doctor_command(results, Console())


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bench {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Console script. Exit codes: 0 fine, 1 some run failed, 2 usage, 130 interrupted, 141 the
    reader of the output went away."""
    if sys.stdout is None:  # closed by whoever started this: nobody wants to read
        sys.stdout = StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a poor encoding must not end a run
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        code = _complain(str(error))
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        _silence_output()
        pipe = isinstance(error, BrokenPipeError)
        code = 141 if pipe else _complain(f"cannot write the output: {error.strerror}")
    except Exception as error:
        # typer brings its own copy of click's errors: known by what they can do.
        if not hasattr(error, "format_message"):
            raise
        code = _complain(error.format_message())  # pyright: ignore[reportAttributeAccessIssue]
    sys.exit(code or 0)


def _silence_output() -> None:
    """What is still buffered cannot be written either: python must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> int:
    print(f"bench: {' '.join(text.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
