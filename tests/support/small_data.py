"""Small data sets on disk and workloads that train on them, in the place of the published ones."""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.datasets.location import Place
from bench.datasets.sources import SOURCES
from bench.datasets.study import find_data, with_data
from bench.datasets.watch import ConsoleWatch
from bench.run_spec import RunSpec
from bench.study_file import study_spec
from bench.workloads.registry import WORKLOADS, Workload
from methods.budget import TransformerShape
from tests.support.archives import make_folder, small_source

CLASSES, TRAIN, TEST = 5, 100, 20
"""Ninety of the training images train."""
WATCH = ConsoleWatch(Console(file=io.StringIO()))

_BLOCKS = TransformerShape(layers=2, width=16, heads=2, head_dim=8, channels=32, qkv_bias=True)


def small_workload(name: str) -> Workload:
    """The workload with a small model, data set and batch; the rest of its recipe stays."""
    whole = WORKLOADS[name]
    blocks = replace(_BLOCKS, qkv_bias=whole.shape.blocks.qkv_bias)
    return replace(
        whole,
        recipe=replace(whole.recipe, batch_size=10),
        shape=replace(whole.shape, blocks=blocks, classes=CLASSES),
        train_images=TRAIN * 9 // 10,
        validation_images=TRAIN // 10,
        test_images=TEST,
    )


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the small ones in the place of the published ones."""
    for name, workload in list(WORKLOADS.items()):
        if workload.dataset:
            monkeypatch.setitem(WORKLOADS, name, small_workload(name))
    for name in SOURCES:
        monkeypatch.setitem(SOURCES, name, small_source(name, CLASSES, TRAIN, TEST))


def make_data(folder: Path) -> Path:
    """Both (small) data sets in the folder; `install` must have been called."""
    for source in SOURCES.values():
        make_folder(source, folder)
    return folder


def run_specs(folder: Path, given: Mapping[str, Any], loaders: int = 0) -> list[RunSpec]:
    """The runs of a study on real data, as `bench run` makes them."""
    place = Place(folder, loaders)
    options = {"density": "0.5", "seeds": "0", **given}
    asked = replace(study_spec(None, with_data(options, place)), device="cpu")
    return find_data(asked, place, WATCH)[1]
