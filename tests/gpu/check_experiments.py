"""All experiments at full scale, as short as can be: `python tests/gpu/check_experiments.py [cpu]`.

Two steps of every configuration at batch 4, then fine-tuning and matched compute from tiny
archives of the true formats and a timing of a few launches, through the command. Under ten
minutes on a GPU. Exits 2 where there is none and `cpu` is not said.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from bench.checkpoints.policy import Checkpointing
from bench.datasets.location import Place
from bench.datasets.sources import SOURCES
from bench.experiments.catalog import stages_of
from bench.experiments.command import experiment_command
from bench.experiments.scales import FULL
from bench.modes import TRAIN
from bench.process_setup import prepare_device
from bench.run_command import Manner
from bench.run_spec import RunSpec
from bench.schema import OK
from bench.session import build_session
from bench.store import StudyStore
from tests.support.archives import make_folder, small_source

BATCH = 4
IMAGES = {"cifar-100": (100, 1000, 100), "tiny-imagenet": (200, 2000, 200)}
"""Classes, training and test images of the tiny archives."""


class NoClock:
    def start_step(self) -> None: ...
    def mark(self, name: str) -> None: ...


def check_configurations(device: str) -> None:
    """Two steps of whatever the experiments train, each kind once; losses must be finite."""
    done: set[tuple[str, str, float, float]] = set()
    for stage in stages_of("all"):
        if stage.mode != TRAIN or stage.continues:
            continue
        spec = replace(stage.spec(FULL, lambda name: name), device=device, init_from=None)
        spec = replace(spec, steps=2, batch_size=BATCH)
        before, began = len(done), time.monotonic()
        for run in spec.runs():
            kind = (run.workload, run.contender, run.density, run.recipe.learning_rate)
            if kind not in done:
                done.add(kind)
                two_steps(run)
        seconds = time.monotonic() - began
        print(f"ok: {stage.name}, {len(done) - before} configurations in {seconds:.0f} s")


def two_steps(run: RunSpec) -> None:
    session = build_session(run, prepare_device(run, None))
    for step in (1, 2):
        loss, _ = session.train_step(step, session.batch(step), NoClock())
        assert bool(torch.isfinite(loss)), f"{run.title}: the loss is {loss}"


def check_commands(device: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, results = Path(folder) / "data", Path(folder) / "results"
        for name, (classes, train, test) in IMAGES.items():
            SOURCES[name] = small_source(name, classes, train, test)
            make_folder(SOURCES[name], data)
        given = {"device": device, "batch_size": BATCH, "density": "0.3", "seeds": "0"}
        manner = Manner(
            results, Console(width=150), place=Place(data), checkpointing=Checkpointing()
        )
        tuned = given | {"steps": 2, "data": "real"}
        assert experiment_command("matched-compute", "full", None, tuned, manner) == 0
        rows = StudyStore(results, "matched-compute-full").finished().values()
        assert {row["method"] for row in rows} == {"barter", "static"}
        assert all(row["status"] == OK and row["start"] == "continue" for row in rows)
        effort = {"launches": 2, "time_limit_min": 0.1}
        timed = given | {"steps": 40, "density": "0.5"}
        quick = replace(manner, effort=effort, place=Place())
        assert experiment_command("step-time", "full", None, timed, quick) == 0
    print("ok: fine-tuning, matched compute and step time through the command")


def main(arguments: list[str]) -> int:
    device = arguments[0] if arguments else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("no CUDA GPU here: nothing checked")
        return 2
    check_configurations(device)
    check_commands(device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
