"""What a study's folder says it holds, and what may be added under its name."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.execution import Execution
from bench.files import read_json, write_json_atomically
from bench.spec import StudySpec
from bench.store import StudyStore
from bench.study_claim import claim, together
from bench.study_file import study_spec


def spec(**given: object) -> StudySpec:
    return replace(study_spec(None, {"steps": 10, "name": "mine", **given}), device="cpu")


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore(tmp_path, "mine")


def grids(store: StudyStore) -> list[Any]:
    axes = ("densities", "methods", "seeds")
    return [tuple(grid[axis] for axis in axes) for grid in read_json(store.study_file)["grids"]]


def test_a_grid_is_added_and_no_product_is_built(store: StudyStore) -> None:
    claim(store, spec(methods="dense,barter", seeds="0"))
    claim(store, spec(methods="barter,static", seeds="1", density="0.5"))
    assert grids(store) == [
        ([0.3], ["dense", "barter"], [0]),
        ([0.5], ["barter", "static"], [1]),
    ]
    whole = together(store, spec(methods="dense", seeds="0"))
    assert [run.title for run in whole.runs()] == [
        "dense, seed 0",
        "barter at 0.3, seed 0",
        "barter at 0.5, seed 1",
        "static at 0.5, seed 1",
    ]


@pytest.mark.parametrize("methods", ["rigl,dense", "dense", "rigl:interval=100"])
def test_nothing_new_adds_no_grid(store: StudyStore, methods: str) -> None:
    claim(store, spec(methods="dense,rigl"))
    before = store.study_file.read_text()
    claim(store, spec(methods=methods, seeds="2,0"))
    assert store.study_file.read_text() == before


def test_a_contender_with_other_options_may_be_added(store: StudyStore) -> None:
    claim(store, spec(methods="rigl", seeds="0"))
    claim(store, spec(methods="rigl:stop=0.50:interval=4", seeds="0"))
    assert [methods for _, methods, _ in grids(store)] == [["rigl"], ["rigl:interval=4:stop=0.5"]]


def test_a_study_of_the_time_before_grids_is_one_grid(store: StudyStore) -> None:
    asked = spec(methods="dense,static", seeds="0")
    old = json.loads(asked.to_json())
    (grid,) = old.pop("grids")
    axes = {axis: grid[axis] for axis in ("methods", "densities", "seeds")}
    write_json_atomically(store.study_file, old | axes)
    assert together(store, asked) == asked
    assert len(together(store, spec(methods="dense", seeds="1")).runs()) == 3


def test_options_of_a_method_that_does_not_run_bind_nobody(store: StudyStore) -> None:
    unused = (("barter", (("beta", 0.5),)),)
    claim(store, replace(spec(methods="dense"), options=unused))
    claim(store, spec(methods="barter"))
    claim(store, replace(spec(methods="static"), options=unused))
    assert read_json(store.study_file)["options"] == []


def test_another_execution_of_the_same_grid_is_added(store: StudyStore) -> None:
    eager = spec(methods="dense", seeds="0")
    (grid,) = eager.grids
    bf16 = replace(eager, grids=(replace(grid, execution=Execution(autocast="bf16")),))
    claim(store, eager)
    claim(store, bf16)
    claim(store, eager)
    assert together(store, eager).runs() == [*eager.runs(), *bf16.runs()]


def test_a_grid_without_an_execution_has_the_default_one(store: StudyStore) -> None:
    asked = spec()
    claim(store, asked)
    content = read_json(store.study_file)
    for grid in content["grids"]:
        del grid["execution"]
    write_json_atomically(store.study_file, content)
    assert together(store, asked) == asked


def test_methods_may_be_added_with_their_options(store: StudyStore) -> None:
    def barter(multiplier: float) -> StudySpec:
        options = (("barter", (("transfer_multiplier", multiplier),)),)
        return replace(spec(methods="barter"), options=options)

    claim(store, spec(methods="static"))
    claim(store, barter(6.0))
    claim(store, spec(methods="dense"))
    assert [methods for _, methods, _ in grids(store)] == [["static"], ["barter"], ["dense"]]
    assert read_json(store.study_file)["options"] == [["barter", [["transfer_multiplier", 6.0]]]]
    claim(store, barter(6.0))
    with pytest.raises(UsageError, match=r"options.barter.transfer_multiplier 6.0, not 1.0"):
        claim(store, barter(1.0))
    with pytest.raises(UsageError, match=r"options.barter.transfer_multiplier 6.0, not by default"):
        claim(store, spec(methods="barter"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 11}, "steps 10, not 11"),
        ({"batch_size": 32}, "batch_size by default, not 32"),
        ({"workload": "cct-digits"}, "workloads vit-digits, not cct-digits"),
    ],
)
def test_another_study_under_the_same_name(store: StudyStore, change: dict, message: str) -> None:
    claim(store, spec())
    with pytest.raises(UsageError, match=f"study 'mine' .* is another one \\({message}\\)"):
        claim(store, spec(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"grids": 3},
        {"grids": [3]},
        {"grids": [{"methods": ["dense"]}]},
        {"grids": [{"methods": [3], "densities": [0.3], "seeds": [0]}]},
        {"options": [3]},
        {"options": None},
        {"steps": "x"},
        {"workloads": None},
        {"colour": "red"},
    ],
)
def test_foreign_study_file(store: StudyStore, change: dict) -> None:
    asked = spec()
    for content in (json.loads(asked.to_json()) | change, change, [change]):
        write_json_atomically(store.study_file, content)
        with pytest.raises(UsageError, match="is not a study of this program"):
            claim(store, asked)
