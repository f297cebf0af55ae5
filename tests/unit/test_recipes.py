"""Schedules, and which settings are the project's own."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.workloads import recipes
from bench.workloads.recipes import Augmentation, Recipe
from bench.workloads.registry import WORKLOADS

ALL = [pytest.param(workload.recipe, id=name) for name, workload in WORKLOADS.items()]


@pytest.mark.parametrize(
    ("recipe", "images", "steps"),
    [
        (recipes.VIT_TINY_IMAGENET, 90_000, 1054),
        (recipes.VIT_CIFAR100_FINETUNE, 45_000, 1054),
        (recipes.CCT_CIFAR100, 45_000, 351),
    ],
)
def test_steps_per_epoch(recipe: Recipe, images: int, steps: int) -> None:
    assert recipe.steps_per_epoch(images) == steps


@pytest.mark.parametrize("batch_size", [-1, 0, 101])
def test_a_batch_that_the_data_cannot_fill(batch_size: int) -> None:
    with pytest.raises(UsageError, match=f"batch size {batch_size} is outside 1 to 100"):
        recipes.VIT_TINY_IMAGENET.steps_per_epoch(100, batch_size)


def test_warm_up_is_a_fraction_of_the_run() -> None:
    recipe = replace(recipes.VIT_DIGITS, warm_up=0.1)
    assert recipe.warm_up_steps(300) == 30
    assert recipe.warm_up_steps(5) == 1  # halves up
    assert recipe.warm_up_steps(4) == 0


@pytest.mark.parametrize("recipe", ALL)
def test_chosen_names_are_fields(recipe: Recipe) -> None:
    known = {field.name for field in fields(Recipe)}
    known |= {f"augmentation.{field.name}" for field in fields(Augmentation)}
    assert recipe.chosen <= known


@pytest.mark.parametrize("recipe", ALL)
def test_unpublished_settings_are_marked(recipe: Recipe) -> None:
    assert recipe.chosen >= {
        "learning_rate",
        "weight_decay",
        "warm_up",
        "label_smoothing",
        "drop_path",
        "augmentation.mixing_probability",
    }


def test_published_settings_are_not_marked() -> None:
    for recipe in (recipes.VIT_TINY_IMAGENET, recipes.VIT_CIFAR100_FINETUNE):
        published = {"decay_order", "passes_per_epoch", "epochs", "batch_size", "tf32"}
        assert not recipe.chosen & published
        assert (recipe.decay_order, recipe.tf32, recipe.passes_per_epoch) == ("before", False, 3)
    assert recipes.CCT_CIFAR100.decay_order == "after"
    assert {"batch_size", "epochs", "tf32"} <= recipes.CCT_CIFAR100.chosen
    assert all(workload.recipe.eval_batch_size == 256 for workload in WORKLOADS.values())


def test_every_value_marked_chosen_in_the_file_is_named_in_chosen() -> None:
    text = Path(recipes.__file__).read_text(encoding="utf-8")
    for name, body in re.findall(r"^([A-Z]\w+) = Recipe\((.*?)^\)", text, re.MULTILINE | re.DOTALL):
        recipe = getattr(recipes, name)
        for field in re.findall(r"^    (\w+)=[^\n]*# chosen", body, re.MULTILINE):
            marked = {entry.split(".")[0] for entry in recipe.chosen}
            assert field in marked, (name, field)


def test_marks_are_no_part_of_a_recipes_identity() -> None:
    recipe = recipes.VIT_DIGITS
    assert replace(recipe, chosen=frozenset()) == recipe
