"""`bench run`: its options."""

from pathlib import Path
from typing import Annotated

import typer

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


def run(
    file: StudyFile = None,
    workload: Workload = None,
    methods: Methods = None,
    density: Density = None,
    seeds: Annotated[str | None, typer.Option(help="comma-separated")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="peak of the schedule; else the recipe's")
    ] = None,
    steps: Steps = None,
    batch_size: BatchSize = None,
    device: Device = None,
    gpu: Gpu = None,
    tf32: Tf32 = None,
    autocast: Autocast = None,
    compiled: Compile = None,
    attention: Attention = None,
    optimizer: Optimizer = None,
    threads: Threads = None,
    recompute: Recompute = None,
    cuda_graphs: CudaGraphs = None,
    study: Annotated[str | None, typer.Option(help="name under the results folder")] = None,
    experiment: Annotated[
        str | None,
        typer.Option(help="a table or figure of the paper, see `bench list`; or all"),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="of an experiment: small (digits, the default) or full")
    ] = None,
    init_from: Annotated[
        str | None,
        typer.Option(help="fine-tune a study's dense models, by seed; or one checkpoint's folder"),
    ] = None,
    continue_from: Annotated[
        str | None,
        typer.Option(help="go on with a study's compact runs until they cost what dense does"),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="train; or time: steps alone, contenders side by side")
    ] = None,
    launches: Annotated[
        int | None, typer.Option(help="of mode time: fresh processes, at least; else 5")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="of mode time: half-width of ratios' intervals; else 2%")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="of mode time: minutes per workload and seed; no launch after; else 10"),
    ] = None,
    bare: Annotated[
        bool | None, typer.Option("--bare", help="of mode time: the gate's frozen loop beside them")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="real or synthetic; else real for a full schedule alone")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of real data; else $BENCH_DATA_DIR, else data")
    ] = None,
    data_loaders: Annotated[
        int | None, typer.Option(help="processes that make batches; else 2 beside a GPU, 0 on CPU")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(help="steps, 0: never; else each evaluation of runs over 1,000")
    ] = None,
    keep_checkpoints: Annotated[
        bool, typer.Option("--keep-checkpoints", help="the final and the selected one of each run")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="runs at once, for accuracy: they disturb each other's times")
    ] = 1,
    results: Results = DEFAULT_RESULTS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="list the runs, run nothing")] = False,
) -> None:
    """Train and time a study; finished runs are kept. Without options: the demo study,
    eight methods on handwritten digits in three to four minutes."""
    from bench.checkpoints.policy import Checkpointing
    from bench.datasets.location import Place
    from bench.run_command import Manner, run_command

    given = {
        "workload": workload,
        "methods": methods,
        "density": density,
        "seeds": seeds,
        "learning_rate": learning_rate,
        "steps": steps,
        "batch_size": batch_size,
        "device": device,
        "gpu": gpu,
        "tf32": tf32,
        "autocast": autocast,
        "compile": compiled,
        "attention": attention,
        "optimizer": optimizer,
        "threads": threads,
        "recompute": recompute,
        "cuda_graphs": cuda_graphs,
        "name": study,
        "mode": mode,
        "data": data,
        "init_from": init_from,
        "continue_from": continue_from,
    }
    effort = {
        "launches": launches,
        "target": target,
        "time_limit_min": time_limit,
        "bare": bare,
    }
    manner = Manner(
        results,
        Console(),
        dry_run,
        effort,
        Place(data_dir, data_loaders),
        Checkpointing(checkpoint_every, keep_checkpoints),
        jobs,
    )
    if experiment is None and scale is None:
        raise typer.Exit(run_command(file, given, manner))
    from bench.experiments.command import experiment_command

    raise typer.Exit(experiment_command(experiment, scale, file, given, manner))
