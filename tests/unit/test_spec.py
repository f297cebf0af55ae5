"""Run identity and study specifications."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.run_spec import RunSpec, identity
from bench.spec import Grid, StudySpec
from bench.study_file import DEFAULT, DEMO, study_spec
from bench.workloads.recipes import Recipe
from methods.config import BarterConfig, Config


def spec(**given: object) -> StudySpec:
    return replace(study_spec(None, {"steps": 10, **given}), device="cpu")


def test_run_ids_are_pinned() -> None:
    """A changed id orphans every finished run: if this fails, a default changed its meaning, or a
    new hyperparameter's default is not "no effect"."""
    recipe = Recipe(
        learning_rate=1e-3,
        weight_decay=0.05,
        decay_order="before",
        warm_up=0.1,
        label_smoothing=0.1,
        drop_path=0.0,
        batch_size=64,
        epochs=16,
        tf32=False,
    )
    dense = RunSpec("vit-digits", "dense", 1.0, 0, 304, 64, "cpu", recipe, Config())
    barter = replace(dense, method="barter", density=0.3, config=BarterConfig())
    assert (dense.run_id, barter.run_id) == PINNED
    tripled = replace(barter, config=BarterConfig(transfer_multiplier=3.0))
    assert tripled.run_id not in PINNED


PINNED = ("7b86199100e2", "c7d622639cc0")


def test_identity_ignores_the_order_of_options() -> None:
    one = {run.run_id for run in spec(methods="barter,dense", density="0.3,0.5").runs()}
    two = {run.run_id for run in spec(density="0.5,0.3", methods="dense,barter").runs()}
    assert one == two
    assert len(one) == 9


@pytest.mark.parametrize(
    "change",
    [{"seed": 9}, {"density": 0.4}, {"total_steps": 11}, {"batch_size": 32}, {"device": "cuda"}],
)
def test_identity_sees_every_setting(change: dict) -> None:
    run = spec().runs()[1]
    assert replace(run, **change).run_id != run.run_id


def test_identity_sees_hyperparameters_and_recipe() -> None:
    run: RunSpec = spec(methods="barter").runs()[0]
    assert isinstance(run.config, BarterConfig)
    assert replace(run, config=replace(run.config, beta=0.9)).run_id != run.run_id
    faster = replace(run.recipe, learning_rate=run.recipe.learning_rate * 2)
    assert replace(run, recipe=faster).run_id != run.run_id
    noted = replace(run.recipe, chosen=frozenset({"epochs"}))
    assert replace(run, recipe=noted).run_id == run.run_id, "a note changes nothing"


def test_new_hyperparameter_without_effect_keeps_the_identity() -> None:
    @dataclass(frozen=True)
    class Grown(Config):
        new: float = 0.0

    assert identity(Grown()) == identity(Config())
    assert identity(Grown(new=1.0)) != identity(Config())


def test_runs_are_seed_by_seed_and_dense_runs_once() -> None:
    runs = spec(methods="dense,barter", density="0.3,0.5", seeds="0,1").runs()
    assert [(run.seed, run.method, run.density) for run in runs] == [
        (seed, method, density)
        for seed in (0, 1)
        for method, density in (("dense", 1.0), ("barter", 0.3), ("barter", 0.5))
    ]


def test_digits_state_their_transfer_multiplier() -> None:
    (run,) = spec(methods="barter", seeds="0").runs()
    assert json.loads(run.to_json())["config"]["transfer_multiplier"] == 4.0


def test_demo_and_default_names() -> None:
    assert study_spec(None, {}).name == "demo"
    assert study_spec(None, {"device": "cpu"}).name == "demo"
    short, again = spec(), spec(seeds="0")
    assert short.name.startswith("vit-digits-")
    assert short.name == again.name, "axes do not change a study's name"
    assert spec(steps=11).name != short.name
    assert spec(name="mine").name == "mine"


def test_file_and_options(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text('methods = ["static"]\nseeds = [4]\nsteps = 7\n')
    read = study_spec(file, {"seeds": "5,6,5", "methods": None})
    assert (read.name, read.grids, read.steps) == ("many", (Grid(("static",), (0.3,), (5, 6)),), 7)


def test_byte_order_mark_in_a_study_file(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text("steps = 7\n", encoding="utf-8-sig")
    assert study_spec(file, {}).steps == 7


def titles(spec: StudySpec) -> list[str]:
    return [run.title for run in spec.runs()]


def test_runs_of_several_grids_are_seed_by_seed_and_none_twice() -> None:
    grids = (Grid(("dense", "rigl"), (0.3,), (1, 0)), Grid(("rigl", "dense"), (0.1, 0.3), (0, 2)))
    assert titles(replace(spec(), grids=grids)) == [
        "dense, seed 1",
        "rigl at 0.3, seed 1",
        "dense, seed 0",
        "rigl at 0.3, seed 0",
        "rigl at 0.1, seed 0",
        "rigl at 0.1, seed 2",
        "rigl at 0.3, seed 2",
        "dense, seed 2",
    ]


def test_a_method_may_stand_twice_with_different_options() -> None:
    study = spec(methods="rigl,rigl:interval=100,rigl:stop=0.5:interval=4", seeds="0")
    assert titles(study) == ["rigl at 0.3, seed 0", "rigl:interval=4:stop=0.5 at 0.3, seed 0"]
    usual, other = study.runs()
    assert usual.run_id == spec(methods="rigl", seeds="0").runs()[0].run_id
    assert (other.config.interval, other.config.stop) == (4, 0.5)  # pyright: ignore
    assert [json.loads(run.to_json())["changed_options"] for run in study.runs()] == [
        [],
        ["interval", "stop"],
    ]


def test_options_of_a_label_go_before_those_of_the_table() -> None:
    table = (("barter", (("beta", 0.5), ("transfer_multiplier", 6.0))),)
    study = spec(methods="barter:transfer_multiplier=2,barter:transfer_multiplier=4", seeds="0")
    assert titles(replace(study, options=table)) == [
        "barter:beta=0.5:transfer_multiplier=2 at 0.3, seed 0",
        "barter:beta=0.5 at 0.3, seed 0",  # 3 is the workload's own
    ]


def test_options_that_do_not_go_together_are_refused() -> None:
    table = (("barter", (("window_end", 0.3),)),)
    study = replace(spec(methods="barter:window_start=0.35"), options=table)
    with pytest.raises(UsageError, match=r"barter: window is 0.35 to 0.3"):
        study.check()


GRIDS = """
steps = 7
methods = ["static"]
seeds = [4]

[[grid]]
density = [0.3, 0.5]

[[grid]]
methods = ["rigl:interval=4", "rigl"]
seeds = 0
"""


def test_grids_of_a_file_fall_back_to_its_top_and_then_to_the_default(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(GRIDS)
    static = Grid(("static",), (0.3, 0.5), (4,))
    rigl = Grid(("rigl:interval=4", "rigl"), (0.3,), (0,))
    assert study_spec(file, {}).grids == (static, rigl)


def test_an_option_replaces_its_key_in_every_grid(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(GRIDS)
    seeded = study_spec(file, {"seeds": "1,2"})
    assert [grid.seeds for grid in seeded.grids] == [(1, 2), (1, 2)]
    assert [grid.densities for grid in seeded.grids] == [(0.3, 0.5), (0.3,)]
    alike = study_spec(file, {"seeds": "1", "methods": "set", "density": "0.7"})
    assert alike.grids == (Grid(("set",), (0.7,), (1,)),)


def test_the_demo_has_every_baseline_and_two_methods_over_densities() -> None:
    runs = study_spec(None, {}).runs()
    assert len(runs) == 25
    assert len({(run.method, run.density) for run in runs}) == 14
    baselines = {"dense", "static", "barter", "set", "snfs", "rigl", "srigl", "s2vite"}
    assert {run.method for run in runs} == baselines
    for method in ("rigl", "barter"):
        densities = {run.density for run in runs if run.method == method}
        assert densities == {0.1, 0.3, 0.5, 0.7}
    recipes = {(run.recipe, run.total_steps, run.batch_size) for run in runs}
    assert len(recipes) == 1, "the recipe is the same for all methods"


def test_the_demo_is_of_bare_calls_only() -> None:
    assert study_spec(None, {"device": "cpu", "name": "mine"}).grids == DEMO
    for given in ({"seeds": "0"}, {"steps": 5}, {"gpu": "L40"}):
        (grid,) = study_spec(None, given).grids
        assert grid.methods == ("dense", "static", "barter")
    assert study_spec(None, {}, to_run=False).grids == (DEFAULT,)
