"""Options that decide how a run is executed: values, identity, words."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.execution import DEFAULT, Execution
from bench.run_spec import RunSpec
from bench.schema import EXECUTION_DEFAULTS
from bench.study_file import study_spec
from bench.workloads.registry import get_workload

CHANGES = (
    {"tf32": True},
    {"autocast": "bf16"},
    {"compile": True},
    {"attention": "math"},
    {"optimizer": "loop"},
    {"threads": 2},
    {"recompute": "norm"},
    {"recompute": "norm,gelu"},
    {"cuda_graphs": True},
)


def run(device: str = "cpu", **execution: object) -> RunSpec:
    spec = replace(study_spec(None, {"steps": 10, "methods": "dense"}), device=device)
    grid = replace(spec.grids[0], execution=Execution(**execution))  # pyright: ignore
    return replace(spec, grids=(grid,)).runs()[0]


def test_defaults_keep_the_ids_that_runs_had_before_there_were_such_options() -> None:
    assert run().run_id == "407cec7d78d9"
    assert run("cuda").run_id == "742a99e7d609"


@pytest.mark.parametrize("change", CHANGES)
def test_every_option_is_part_of_the_identity(change: dict) -> None:
    assert run(**change).run_id != run().run_id


def test_what_a_run_does_anyway_may_be_said() -> None:
    same = {"tf32": False, "autocast": "none", "compile": False, "attention": "auto"}
    assert run(**same, optimizer="fused", threads=1).run_id == run().run_id


def test_tf32_and_threads_come_from_recipe_and_workload() -> None:
    assert not run().tf32
    assert run("cuda", tf32=True).tf32
    assert run().execution.threads == get_workload("vit-digits").cpu_threads == 1
    assert run("cuda").execution.threads is None
    assert run(threads=2).execution.threads == 2


def test_records_take_what_older_ones_lack_for_the_defaults() -> None:
    assert {name: getattr(DEFAULT, name) for name in EXECUTION_DEFAULTS} == EXECUTION_DEFAULTS


def test_a_study_may_hold_grids_of_several_executions(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "methods = 'dense'\nseeds = 0\noptimizer = 'loop'\n"
        "[[grid]]\n[[grid]]\ncompile = true\nthreads = 2\n[[grid]]\noptimizer = 'fused'\n"
    )
    loop, compiled, usual = (grid.execution for grid in study_spec(file, {}).grids)
    assert loop == Execution(optimizer="loop")
    assert compiled == Execution(optimizer="loop", compile=True, threads=2)
    assert usual == DEFAULT
    (over,) = study_spec(file, {"compile": False, "threads": "2", "optimizer": "loop"}).grids
    assert over.execution == Execution(optimizer="loop", threads=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"autocast": "fp8"}, "--autocast is 'fp8': one of none, bf16, fp16 it must be"),
        ({"attention": "xformers"}, "--attention is 'xformers': one of auto, math, flash"),
        ({"optimizer": "adam"}, "--optimizer is 'adam': one of fused, foreach, loop"),
        ({"threads": 0}, "--threads 0: a run needs at least 1 thread"),
        ({"recompute": "relu"}, "--recompute is 'relu': none, or any of norm, gelu"),
        ({"recompute": "gelu,norm"}, "--recompute is 'gelu,norm': none, or any of norm, gelu"),
        ({"recompute": ""}, "--recompute is '': none, or any of norm, gelu"),
        ({"recompute": "gelu", "compile": True}, "--recompute with --compile: the compiler itself"),
        ({"cuda_graphs": True, "autocast": "fp16"}, "--cuda-graphs with --autocast fp16"),
    ],
)
def test_unknown_values_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Execution(**wrong).check()


@pytest.mark.parametrize(
    ("asked", "recompute"),
    [
        ("gelu", "gelu"),
        ("gelu, norm", "norm,gelu"),
        (["gelu", "norm", "gelu"], "norm,gelu"),
        ("none", "none"),
    ],
)
def test_recomputed_activations_are_named_in_any_order(asked: object, recompute: str) -> None:
    (grid,) = study_spec(None, {"steps": 10, "recompute": asked}).grids
    assert grid.execution == Execution(recompute=recompute)


@pytest.mark.parametrize("asked", ["norm,relu", "none,norm", ","])
def test_unknown_activations_are_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="recompute"):
        study_spec(None, {"steps": 10, "recompute": asked})


def test_a_run_says_what_is_unusual_about_it() -> None:
    assert run().title == "dense, seed 0"
    assert run(compile=True, threads=2).title == "dense, seed 0 (compile on, threads 2)"
    graphs = run("cuda", cuda_graphs=True, recompute="norm,gelu")
    assert graphs.title == "dense, seed 0 (recompute norm,gelu, cuda graphs on)"
    assert Execution(tf32=False, attention="math").beside(DEFAULT) == "tf32 off, attention math"
