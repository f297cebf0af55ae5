"""Run identity and study specifications."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.files import write_json_atomically
from bench.spec import RunSpec, StudySpec, identity
from bench.store import StudyStore
from bench.study_file import claim, study_spec
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
    assert json.loads(run.to_json())["config"]["transfer_multiplier"] == 3.0


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
    assert (read.name, read.methods, read.seeds, read.steps) == ("many", ("static",), (5, 6), 7)


def test_axes_may_grow_under_one_name(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "mine")
    claim(store, spec(name="mine", seeds="0"))
    claim(store, spec(name="mine", seeds="1", methods="static"))
    there = json.loads(store.study_file.read_text())
    assert there["seeds"] == [0, 1]
    assert there["methods"] == ["dense", "static", "barter"]


def test_methods_may_be_added_with_their_options(tmp_path: Path) -> None:
    def barter(multiplier: float) -> StudySpec:
        options = (("barter", (("transfer_multiplier", multiplier),)),)
        return replace(spec(name="mine", methods="barter"), options=options)

    store = StudyStore(tmp_path, "mine")
    claim(store, spec(name="mine", methods="static"))
    claim(store, barter(6.0))
    claim(store, spec(name="mine", methods="dense"))
    there = json.loads(store.study_file.read_text())
    assert there["methods"] == ["static", "barter", "dense"]
    assert there["options"] == [["barter", [["transfer_multiplier", 6.0]]]]
    claim(store, barter(6.0))
    with pytest.raises(UsageError, match=r"options.barter.transfer_multiplier 6.0, not 1.0"):
        claim(store, barter(1.0))
    with pytest.raises(UsageError, match=r"options.barter.transfer_multiplier 6.0, not by default"):
        claim(store, spec(name="mine", methods="barter"))


def test_byte_order_mark_in_a_study_file(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text("steps = 7\n", encoding="utf-8-sig")
    assert study_spec(file, {}).steps == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 11}, "steps 10, not 11"),
        ({"batch_size": 32}, "batch_size by default, not 32"),
        ({"workload": "cct-digits"}, "workloads vit-digits, not cct-digits"),
    ],
)
def test_another_study_under_the_same_name(tmp_path: Path, change: dict, message: str) -> None:
    store = StudyStore(tmp_path, "mine")
    claim(store, spec(name="mine"))
    with pytest.raises(UsageError, match=f"study 'mine' .* is another one \\({message}\\)"):
        claim(store, spec(name="mine", **change))


def test_foreign_study_file(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "mine")
    write_json_atomically(store.study_file, {"what": "else"})
    with pytest.raises(UsageError, match="is not a study of this program"):
        claim(store, spec(name="mine"))
