"""Blocks that are compiled: the same numbers, and no further graph when a width changes."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from baselines.s2vite import S2vite
from bench.arithmetic import forward_of
from bench.compilation import CompiledBlocks
from bench.execution import Execution
from bench.measure.disturbances import graphs_compiled
from methods.barter import Barter
from methods.base import SparseMethod
from methods.budget import TransformerShape
from methods.static import Static
from tests.support.training import Trained, attach, batch, small_cct, small_vit

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's own compiler
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler: no g++")
STEPS = 40


def shape_of(heads: int) -> TransformerShape:
    return TransformerShape(
        layers=3, width=4 * heads, heads=heads, head_dim=4, channels=24, qkv_bias=True
    )


def pair(
    method: type[SparseMethod],
    heads: int = 8,
    build: Callable[..., nn.Module] = small_vit,
    backend: str = "aot_eager",
) -> tuple[Trained, Trained]:
    """A run of the model, and one of its compiled blocks."""
    shape = shape_of(heads)
    runs = [attach(method(), build(shape=shape), STEPS, shape=shape) for _ in range(2)]
    runs[1].model = CompiledBlocks(runs[1].model, backend)  # pyright: ignore
    return runs[0], runs[1]


def graphs_of(runs: tuple[Trained, Trained], steps: int = STEPS) -> list[tuple[int, Any]]:
    """Train both, which must agree; graphs made in each step, and what its topology was."""
    found, scores = [], []
    for step in range(1, steps + 1):
        before, topology = graphs_compiled(), runs[1].method.topology()
        (loss, update), (other, same) = (run.step(step) for run in runs)
        assert other == pytest.approx(loss, rel=1e-9)
        assert [vars(event) for event in same.events] == [vars(event) for event in update.events]
        found.append((graphs_compiled() - before, topology))
        scores = [run.method.state_tensors() for run in runs]
    for mine, theirs in zip(*scores, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    return found


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("build", [small_vit, small_cct])
def test_a_resize_finds_its_graph(build: Callable[..., nn.Module]) -> None:
    """Scores are collected until step 16, widths change after steps 10 and 16."""
    first, *later = graphs_of(pair(Barter, build=build))
    assert first[0] > 0
    topologies = {topology for _, topology in later}
    assert len(topologies) == 3
    assert min(min(t.heads_per_layer) for t in topologies) > 1
    assert [graphs for graphs, _ in later] == [0] * (STEPS - 1)


def test_width_one_is_compiled_for_itself() -> None:
    _, *later = graphs_of(pair(Barter, heads=4))
    compiled = [topology for graphs, topology in later if graphs]
    narrow = [topology for _, topology in later if min(topology.heads_per_layer) == 1]
    assert len(set(narrow)) > 1
    assert compiled == [narrow[0]], "once, and not at the next resize"


def test_blocks_alike_share_one_graph() -> None:
    first, *later = graphs_of(pair(Static), steps=3)
    assert first[0] == 1
    assert [graphs for graphs, _ in later] == [0, 0]


def test_hooks_that_come_and_go_are_seen() -> None:
    """S2ViTE reads scores in the steps of its updates alone."""
    eager, compiled = pair(S2vite)
    graphs = [made for made, _ in graphs_of((eager, compiled))]
    assert graphs[0] == 1
    assert sum(made > 0 for made in graphs) == 2, "at the first update, and never again"


@needs_compiler
def test_kernels_compute_what_the_model_does() -> None:
    """With the compiler that a run has, up to a resize of channels and heads."""
    found = graphs_of(pair(Barter, backend="inductor"), steps=11)
    assert found[0][0] > 0
    assert found[-1] == (0, found[-1][1])
    assert found[-1][1] != found[0][1]


def test_the_model_itself_stays_as_it_is() -> None:
    model = small_vit()
    compiled = forward_of(Execution(compile=True), model)
    assert isinstance(compiled, CompiledBlocks)
    quick = CompiledBlocks(model, "eager")
    images, _ = batch(1)
    before = graphs_compiled()
    expected = model(images)
    assert graphs_compiled() == before
    assert torch.allclose(quick(images), expected, rtol=1e-12)
    after = graphs_compiled()
    assert after > before
    assert torch.equal(deepcopy(model)(images), expected)
    assert torch.equal(model(images), expected)
    assert graphs_compiled() == after
    with pytest.raises(ValueError, match="not enough values"):
        quick(images[0, 0, 0])  # no image
    assert torch.equal(model(images), expected)
    assert graphs_compiled() == after


def test_what_is_not_asked_for_is_not_there() -> None:
    model = small_vit()
    assert forward_of(Execution(), model) is model
