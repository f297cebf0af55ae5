"""Options that several commands share, and the console they print to."""

from pathlib import Path
from typing import Annotated

import typer
from rich import console

StudyFile = Annotated[
    Path | None, typer.Argument(metavar="[STUDY.toml]", help="study file; options override it")
]
Workload = Annotated[str | None, typer.Option(help="model and data, see `bench list`")]
Methods = Annotated[
    str | None,
    typer.Option(help="comma-separated, see `bench list`; with options: rigl:interval=5"),
]
Density = Annotated[str | None, typer.Option(help="comma-separated, each in (0, 1]")]
Steps = Annotated[int | None, typer.Option(help="optimizer steps, in place of the workload's own")]
BatchSize = Annotated[int | None, typer.Option(help="images per optimizer step")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps")]
Gpu = Annotated[str | None, typer.Option(help="model of the GPU to use, e.g. L40")]
Tf32 = Annotated[
    bool | None, typer.Option("--tf32/--no-tf32", help="matrix products; default: the recipe's")
]
Autocast = Annotated[str | None, typer.Option(help="none, bf16 or fp16")]
Compile = Annotated[
    bool | None, typer.Option("--compile/--no-compile", help="the blocks, by torch.compile")
]
Attention = Annotated[str | None, typer.Option(help="auto, math, flash, efficient or cudnn")]
Optimizer = Annotated[str | None, typer.Option(help="Adam as fused, foreach or loop")]
Threads = Annotated[int | None, typer.Option(help="of the CPU, within an operator")]
Recompute = Annotated[
    str | None, typer.Option(help="in backward, in place of keeping: norm, gelu, or norm,gelu")
]
CudaGraphs = Annotated[
    bool | None,
    typer.Option("--cuda-graphs/--no-cuda-graphs", help="steps recorded, then replayed"),
]
Results = Annotated[Path, typer.Option(help="folder of all studies")]

DEFAULT_RESULTS = Path("results")


class Console(console.Console):
    """Says that its reader went away, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
