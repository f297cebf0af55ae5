"""The named experiments as they are planned; nothing is run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.experiments.catalog import ALL_METHODS, EXPERIMENTS, Stage, family, stages_of
from bench.experiments.rates import chosen_rates, with_variants
from bench.experiments.scales import FULL, SCALES, SMALL, Scale, get_scale
from bench.schema import FAILED
from bench.starts import compact_only
from bench.store import StudyStore
from bench.workloads.registry import get_workload
from tests.unit.experiment_fixture import run_of, write


def spec(stage: Stage, scale: Scale) -> Any:
    return replace(stage.spec(scale, lambda name: f"{name}-{scale.name}"), device="cpu")


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("name", [*EXPERIMENTS, "all"])
def test_every_stage_can_be_run(name: str, scale: Scale) -> None:
    for stage in stages_of(name):
        if stage.continues:
            (before,) = (s for s in stages_of(name) if s.name == stage.continues)
            made = compact_only(spec(before, scale), "matched", before.name)
        else:
            made = spec(stage, scale)
            made.check(to_run=scale is SMALL)  # at full scale that needs the data sets
        assert made.runs()


def test_main_has_all_methods_densities_and_seeds() -> None:
    search, main = (spec(stage, SMALL) for stage in stages_of("main"))
    seeds: dict[tuple[str, str, float], set[int]] = {}
    for run in main.runs():
        seeds.setdefault((run.workload, run.method, run.density), set()).add(run.seed)
    for workload in (SMALL.vit, SMALL.cct):
        assert len(seeds[workload, "dense", 1.0]) >= 5
        for method in ALL_METHODS[1:]:
            counts = [len(seeds[workload, method, density]) for density in (0.1, 0.3, 0.5, 0.7)]
            assert counts == [2, 5, 2, 2]
    budgets: dict[tuple[str, str], int] = {}
    rates: dict[str, set[float]] = {}
    for run in search.runs():
        budgets[run.workload, run.method] = budgets.get((run.workload, run.method), 0) + 1
        rates.setdefault(run.workload, set()).add(run.recipe.learning_rate)
        assert run.seed not in {r.seed for r in main.runs()}, "no result uses a searched seed"
    assert set(budgets.values()) == {3}, "the same budget for every method"
    assert all(len(tried) == 3 for tried in rates.values())


def test_parts_of_main_are_runs_of_main() -> None:
    (_, whole) = (spec(stage, SMALL) for stage in stages_of("main"))
    for name in ("budgets", "static"):
        (_, part) = (spec(stage, SMALL) for stage in stages_of(name))
        assert set(part.runs()) < set(whole.runs())
        assert part.name == whole.name


def test_the_shapes_of_a_fine_tuning_differ_in_their_classes_alone() -> None:
    for scale in SCALES.values():
        first, second = (get_workload(n).shape for n in (scale.pretraining, scale.finetuning))
        assert replace(first, classes=0) == replace(second, classes=0)


def test_every_home_is_an_experiment_with_that_stage() -> None:
    for experiment in EXPERIMENTS.values():
        for stage in experiment.stages:
            assert stage.name in family(stage.home)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: stages_of("mian"), "unknown experiment 'mian'; did you mean 'main'"),
        (lambda: stages_of("figure"), "there are: main"),
        (lambda: get_scale("ful"), "unknown scale 'ful'; did you mean 'full'"),
    ],
)
def test_typos(ask: Any, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask()
    assert says in str(refused.value)


def test_full_scale_is_the_papers() -> None:
    assert (FULL.vit, FULL.finetuning) == ("vit-tiny-imagenet", "vit-cifar100-finetune")


def search(root: Path, tops: dict[tuple[str, float, int], float | None]) -> StudyStore:
    """A search whose runs reached these validation accuracies; None is a run that failed."""
    runs, validation = [], {}
    for number, ((method, rate, seed), top) in enumerate(tops.items()):
        run = run_of(method, 0.3, seed, tag=str(number), learning_rate=rate)
        if top is None:
            run |= {"status": FAILED, "reason": "diverged"}
        else:
            validation[run["run_id"]] = [top - 5, top, top - 1]
        runs.append(run)
    return write(root, "search", "main", {"learning-rates": "search"}, runs, validation)


def test_the_best_rate_is_chosen_per_method(tmp_path: Path) -> None:
    store = search(
        tmp_path,
        {
            ("rigl", 1e-3, 0): 70.0,
            ("rigl", 3e-3, 0): 80.0,
            ("rigl", 1e-3, 1): 75.0,
            ("rigl", 3e-3, 1): 60.0,  # mean 70 against 72.5
            ("barter", 1e-3, 0): 50.0,
            ("barter", 3e-3, 0): 50.0,  # equal: the lower rate
            ("set", 1e-3, 0): 40.0,
            ("set", 9e-3, 0): 90.0,
            ("set", 9e-3, 1): None,  # a rate with a failed run is out
            ("snfs", 1e-3, 0): None,
        },
    )
    rates = {method: rate for _, method, rate in chosen_rates(store)}
    assert rates == {"rigl": 1e-3, "barter": 1e-3, "set": 1e-3}


def test_variants_take_barters_rate() -> None:
    found = with_variants((("w", "barter", 0.5), ("w", "rigl", 0.1)))
    assert ("w", "barter-random-pair", 0.5) in found
    assert ("w", "rigl", 0.1) in found
    assert len(found) == 5
