"""Which workloads there are: model, recipe, size of the data (specification, section 6).

No torch: listing, planning and refusing a wrong name must not wait for it.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from bench.errors import UsageError
from bench.workloads import recipes
from bench.workloads.recipes import Recipe
from bench.workloads.shapes import CctShape, ModelShape, VitShape
from methods.budget import TransformerShape


@dataclass(frozen=True)
class Workload:
    """A model, the data it is trained on, and how."""

    name: str
    summary: str
    """One line, for lists."""
    shape: ModelShape
    recipe: Recipe
    data: Literal["digits", "synthetic"]
    """Where batches come from when no data set is read; `synthetic` ones can be timed, but teach
    nothing."""
    train_images: int
    validation_images: int
    test_images: int
    """Sizes of the splits of the data set that the schedule is made for."""
    transfer_multiplier: float = 1
    """Factor on the published transfer counts (m in section 3); 1 is the paper's own."""
    eval_epochs: int = 1
    """Epochs between two evaluations on the validation split."""
    dataset: Literal["cifar-100", "tiny-imagenet"] | None = None
    """Data set on disk that it is made for (`bench.datasets`); None where it needs none."""
    cpu_threads: int | None = None
    """Intra-op threads on CPU; None is torch's own choice, all cores."""
    digits: tuple[int, ...] = ()
    """Of `digits` data: which of the ten it is made of, in the order of its classes."""

    def steps_per_epoch(self, batch_size: int | None = None) -> int:
        """Steps of one epoch at the recipe's batch size, or at another one.

        Raises:
            UsageError: the batch is empty, or larger than the training split.
        """
        return self.recipe.steps_per_epoch(self.train_images, batch_size)

    def total_steps(self, batch_size: int | None = None) -> int:
        """Steps of the full schedule."""
        return self.recipe.epochs * self.steps_per_epoch(batch_size)

    def eval_interval(self, batch_size: int | None = None) -> int:
        """Steps between two evaluations on the validation split."""
        return self.eval_epochs * self.steps_per_epoch(batch_size)


_VIT_BLOCKS = TransformerShape(
    layers=9, width=192, heads=12, head_dim=16, channels=384, qkv_bias=True
)
_CCT_BLOCKS = TransformerShape(
    layers=7, width=256, heads=16, head_dim=16, channels=512, qkv_bias=False
)
_DIGITS_MULTIPLIER = 4
"""Small models have few units: at 1x a run at density 0.1 would execute three channel transfers
and one of heads, at 4x it executes eleven and one. Chosen, and part of every record."""


_DIGITS_THREADS = 1
"""Chosen: on tensors this small a second thread gains a third where nothing else runs, and makes
steps ten times slower where anything does."""


_ALL_DIGITS = tuple(range(10))


def _digits_blocks(qkv_bias: bool) -> TransformerShape:
    return TransformerShape(
        layers=4, width=64, heads=8, head_dim=8, channels=128, qkv_bias=qkv_bias
    )


def _vit_half(
    name: str, summary: str, recipe: Recipe, digits: tuple[int, ...], images: tuple[int, int, int]
) -> Workload:
    """Half of the digits for the small ViT: a task to learn first, and another to learn from it."""
    blocks = _digits_blocks(qkv_bias=True)
    train, validation, test = images
    return Workload(
        name=name,
        summary=summary,
        shape=VitShape(blocks, image_size=32, classes=len(digits), patch_size=8),
        recipe=recipe,
        data="digits",
        train_images=train,
        validation_images=validation,
        test_images=test,
        transfer_multiplier=_DIGITS_MULTIPLIER,
        eval_epochs=4,
        cpu_threads=_DIGITS_THREADS,
        digits=digits,
    )


_ALL = (
    Workload(
        name="vit-digits",
        summary="small ViT (4 layers of 8 heads) on 1,797 real handwritten digits, 32x32",
        shape=VitShape(_digits_blocks(qkv_bias=True), image_size=32, classes=10, patch_size=8),
        recipe=recipes.VIT_DIGITS,
        data="digits",
        train_images=1261,
        validation_images=179,
        test_images=357,
        transfer_multiplier=_DIGITS_MULTIPLIER,
        eval_epochs=2,
        cpu_threads=_DIGITS_THREADS,
        digits=_ALL_DIGITS,
    ),
    Workload(
        name="cct-digits",
        summary="small CCT (4 layers of 8 heads) on 1,797 real handwritten digits, 32x32",
        shape=CctShape(
            _digits_blocks(qkv_bias=False), image_size=32, classes=10, hidden_filters=(16,)
        ),
        recipe=recipes.CCT_DIGITS,
        data="digits",
        train_images=1261,
        validation_images=179,
        test_images=357,
        transfer_multiplier=_DIGITS_MULTIPLIER,
        eval_epochs=2,
        cpu_threads=_DIGITS_THREADS,
        digits=_ALL_DIGITS,
    ),
    _vit_half(
        name="vit-digits-0-4",
        summary="the small ViT on the digits 0 to 4, to be fine-tuned from",
        recipe=recipes.VIT_HALF_DIGITS,
        digits=(0, 1, 2, 3, 4),
        images=(633, 90, 178),
    ),
    _vit_half(
        name="vit-digits-5-9",
        summary="the small ViT on the digits 5 to 9, to be fine-tuned on",
        recipe=recipes.VIT_DIGITS_FINETUNE,
        digits=(5, 6, 7, 8, 9),
        images=(628, 89, 179),
    ),
    Workload(
        name="cct-cifar100",
        summary="the paper's CCT-7/3x1 for CIFAR-100, 32x32; or synthetic batches, for timing",
        shape=CctShape(_CCT_BLOCKS, image_size=32, classes=100),
        recipe=recipes.CCT_CIFAR100,
        data="synthetic",
        dataset="cifar-100",
        train_images=45_000,
        validation_images=5_000,
        test_images=10_000,
    ),
    Workload(
        name="vit-tiny-imagenet",
        summary="the paper's ViT for Tiny-ImageNet, 64x64; or synthetic batches, for timing",
        shape=VitShape(_VIT_BLOCKS, image_size=64, classes=200, patch_size=8),
        recipe=recipes.VIT_TINY_IMAGENET,
        data="synthetic",
        dataset="tiny-imagenet",
        train_images=90_000,
        validation_images=10_000,
        test_images=10_000,
    ),
    Workload(
        name="vit-cifar100-finetune",
        summary="the same ViT fine-tuned on CIFAR-100 at 64x64; or synthetic batches, for timing",
        shape=VitShape(_VIT_BLOCKS, image_size=64, classes=100, patch_size=8),
        recipe=recipes.VIT_CIFAR100_FINETUNE,
        data="synthetic",
        dataset="cifar-100",
        train_images=45_000,
        validation_images=5_000,
        test_images=10_000,
    ),
)

WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _ALL}
"""By name, in the order in which they are listed."""


def get_workload(name: str) -> Workload:
    """The workload of that name.

    Raises:
        UsageError: there is none; the message suggests the nearest name.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    nearest = get_close_matches(name.lower(), WORKLOADS, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(WORKLOADS)}"
    raise UsageError(f"unknown workload {name!r}; {hint}")
