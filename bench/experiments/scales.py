"""At which scale an experiment is done: on which tasks, with how many seeds. No torch."""

from dataclasses import dataclass

from bench.errors import UsageError
from bench.method_options import nearest


@dataclass(frozen=True)
class Scale:
    """All figures here are chosen, unless said otherwise."""

    name: str
    vit: str
    cct: str
    """Tasks that are trained from scratch."""
    pretraining: str
    finetuning: str
    """Tasks of the fine-tuning experiments: models of the first start runs on the second."""
    seeds: tuple[int, ...]
    """At density 0.3, and of experiments at one density."""
    few_seeds: tuple[int, ...]
    """At all other densities."""
    finetune_seeds: tuple[int, ...]
    search_seeds: tuple[int, ...]
    """Of the search for learning rates; no result uses them."""
    settings_batch: int | None
    """Of the two steps that show the settings; None is the recipe's."""


SMALL = Scale(
    name="small",
    vit="vit-digits",
    cct="cct-digits",
    pretraining="vit-digits-0-4",
    finetuning="vit-digits-5-9",
    seeds=(0, 1, 2, 3, 4),
    few_seeds=(0, 1),
    finetune_seeds=(0, 1, 2),
    search_seeds=(100,),
    settings_batch=None,
)
FULL = Scale(
    name="full",
    vit="vit-tiny-imagenet",
    cct="cct-cifar100",
    pretraining="vit-tiny-imagenet",
    finetuning="vit-cifar100-finetune",
    seeds=(0, 1, 2),
    few_seeds=(0, 1, 2),
    finetune_seeds=(0, 1, 2),
    search_seeds=(100,),
    settings_batch=4,
)
SCALES = {scale.name: scale for scale in (SMALL, FULL)}


def get_scale(name: str) -> Scale:
    """The scale of that name; UsageError with those that there are."""
    if name not in SCALES:
        raise UsageError(f"unknown scale {name!r}; {nearest(name, SCALES)}")
    return SCALES[name]
