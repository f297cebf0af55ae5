"""Step times against the limit that MACs set: measured, for `docs/performance.md`.

    python -m tests.speed.goals record [--threads 2] [--pad-channels 16] [--minutes 7]
    python -m tests.speed.goals profile      # by operator at density 0.1, and updates by replay
    python -m tests.speed.goals report       # what was recorded, to docs/performance.md

`record` times both models, each for so many minutes (a launch that has begun is finished), in the
studies `results/speed-...`; it goes on where it stopped, and `bench report speed-vit-1-thread`
shows all of one. It needs a quiet machine: quarter of an hour for the first table, three minutes
for `profile`.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.capability import refuse_impossible
from bench.lock import exclusive
from bench.measure.devices import resolve
from bench.processes import start_server
from bench.store import StudyStore
from bench.study_claim import claim
from bench.timing.display import make_watch
from bench.timing.launcher import Launcher, wait_passively
from bench.timing.study import Effort, time_study
from reports.side_by_side import widest_half_width
from tests.speed.page import PAGE, Profile, page, read
from tests.speed.plan import DENSITIES, MODELS, VARIANTS, Model, Variant

ROUNDS = 2
"""Of a launch: at these sizes a round takes long, and launches are what intervals rest on."""
PROFILED = ("dense", "static", "barter")


def record(root: Path, variant: Variant, minutes: float) -> None:
    wait_passively()
    start_server("cpu")
    for model in MODELS:
        spec = variant.study(model)
        for grid in spec.grids:
            refuse_impossible(grid.execution, resolve("cpu", None))
        store = StudyStore(root, spec.name)
        claim(store, spec)
        launcher = Launcher(store.folder / "logs", rounds=ROUNDS)
        effort = Effort(time_limit_s=60 * minutes)
        watch = make_watch(Console(), effort)
        with exclusive(store.folder):
            try:
                time_study(spec.runs(), store, launcher, effort, widest_half_width, watch)
            finally:
                watch.end()


def profile(root: Path, variant: Variant) -> None:
    from tests.speed.operators import in_own_process

    for model in MODELS:
        spec = variant.study(model)
        runs = [run for run in spec.runs() if run.method in PROFILED]
        least = [run for run in runs if run.density in (1, min(DENSITIES))]
        barter = [run for run in runs if run.method == "barter"]
        found: Profile = {
            "operators": [in_own_process("by_operator", run) for run in least],
            "updates": [in_own_process("update_costs", run) for run in barter],
        }
        file = profile_file(root, variant, model)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found), encoding="utf-8")
        print(file)


def profile_file(root: Path, variant: Variant, model: Model) -> Path:
    return root / variant.study(model).name / "profile.json"


def report(root: Path) -> None:
    measured = {}
    for variant in VARIANTS:
        for model in MODELS:
            store = StudyStore(root, variant.study(model).name)
            if store.study_file.exists():
                file = profile_file(root, variant, model)
                measured[variant, model.name] = read(store, file)
    PAGE.write_text(page(measured), encoding="utf-8")
    print(PAGE.read_text())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Step times against their goals")
    parser.add_argument("command", choices=("record", "profile", "report"))
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2))
    parser.add_argument("--pad-channels", type=int, default=1, choices=(1, 16))
    parser.add_argument("--minutes", type=float, default=7.0, help="of each model")
    parser.add_argument("--results", type=Path, default=Path("results"))
    asked = parser.parse_args(arguments)
    variant = Variant(asked.threads, asked.pad_channels)
    if asked.command == "record":
        record(asked.results, variant, asked.minutes)
    elif asked.command == "profile":
        profile(asked.results, variant)
    else:
        report(asked.results)


if __name__ == "__main__":
    main()
