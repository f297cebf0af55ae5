"""How many images a second data loading gives; not part of the test suite.

    python -m tests.datasets.throughput [--images 5000] [--loaders 2]

Makes archives of the true formats with that many training images, then unpacks and decodes
them and reads training batches as a run does. Prints a table in Markdown; `docs/data.md` has one.
"""

import argparse
import io
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from bench.datasets.batches import StoredData
from bench.datasets.location import Stored
from bench.datasets.prepare import prepare
from bench.datasets.sources import SOURCES
from bench.datasets.watch import ConsoleWatch
from bench.workloads.registry import WORKLOADS
from tests.support.archives import make_archive, small_source

NEEDS_MS = {"cct-cifar100": 105.94, "vit-tiny-imagenet": 23.19, "vit-cifar100-finetune": 23.19}
"""Published step times of BARTER at density 0.5 on an L40 (specification, section 10)."""
SECONDS = 8.0


def images_per_s(name: str, stored: Stored, images: int) -> float:
    """Of training batches, after those that fill the queues."""
    workload = replace(WORKLOADS[name], train_images=images * 9 // 10)
    batch_size = workload.recipe.batch_size
    data = StoredData(workload, stored, batch_size, 0, torch.device("cpu"))
    step = 1
    while step <= 20:
        data.batch(step)
        step += 1
    start, first = time.perf_counter(), step
    while time.perf_counter() - start < SECONDS:
        data.batch(step)
        step += 1
    return (step - first) * batch_size / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="Data loading, in images a second")
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--loaders", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} cores, {asked.loaders} loaders, {asked.images:,} images\n")
    print("| workload | 0 loaders, images/s | loaders, images/s | needed, images/s | decoding, s |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        stored = {}
        for name, whole in SOURCES.items():
            small = small_source(name, whole.classes, asked.images, 1000)
            source = make_archive(small, Path(folder))
            start = time.perf_counter()
            decoded = prepare(source, Path(folder), ConsoleWatch(Console(file=io.StringIO())))
            stored[name] = str(decoded.folder), time.perf_counter() - start
        for name, step_ms in NEEDS_MS.items():
            where, seconds = stored[str(WORKLOADS[name].dataset)]
            rates = [
                images_per_s(name, Stored(where, loaders), asked.images)
                for loaders in (0, asked.loaders)
            ]
            need = WORKLOADS[name].recipe.batch_size / step_ms * 1000
            cells = [f"{value:,.0f}" for value in (*rates, need)]
            print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
