"""How each model is trained (specification, sections 6 and 7). No torch.

Every number that the project chose stands in this file and nowhere else, and is named in its
recipe's `chosen`, so that a report can say which settings are published and which are ours.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from bench.errors import UsageError
from methods.rounding import exact, round_half_up

VALIDATION_SHARE = 0.1
"""Of each class of a data set's training images, held out (published)."""
SPLIT_SEED = 0
"""Which images are held out; chosen, the same for every run."""


@dataclass(frozen=True)
class Normalisation:
    """Subtracted from, and divided out of, the red, green and blue values (0 to 1) of images."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


@dataclass(frozen=True)
class Augmentation:
    """What is done to training images; the default is nothing. Synthetic batches stay as drawn."""

    crop_padding: int = 0
    """Pixels of padding around the image before a random crop back to its size."""
    horizontal_flip: bool = False
    policy: Literal["none", "randaugment-2-9", "autoaugment-imagenet"] = "none"
    random_erasing: float = 0.0
    """Probability per image."""
    mixing: tuple[str, ...] = ()
    """Batch mixings, one of which is drawn with equal probability where a batch is mixed."""
    mixing_probability: float = 0.0
    """Share of batches that are mixed."""
    mixup_alpha: float = 0.0
    cutmix_alpha: float = 0.0


@dataclass(frozen=True)
class Recipe:
    """Optimizer, schedule and regularisation of one training run.

    Weight decay is decoupled and explicit, `p <- p - learning_rate_now * weight_decay * p`
    (the product with the learning rate is chosen), on every parameter, active entries only.
    The learning rate rises linearly over the warm-up and then follows a cosine.
    """

    learning_rate: float
    """Peak, reached at the end of the warm-up."""
    weight_decay: float
    decay_order: Literal["before", "after"]
    """Whether the decay is applied before or after the Adam update of the same step."""
    warm_up: float
    """Fraction of the run's steps, so that a shortened schedule keeps its form."""
    label_smoothing: float
    drop_path: float
    """Stochastic-depth rate of the last layer; rises linearly from 0 over the layers."""
    batch_size: int
    epochs: int
    tf32: bool
    """Whether matrix products may run in TF32 where the device has it. Never autocast."""
    passes_per_epoch: int = 1
    """Shuffled passes over the training split that one epoch concatenates."""
    augmentation: Augmentation = Augmentation()
    normalisation: Normalisation | None = None
    """Of images that are read from a data set; None where the data have their own."""
    optimizer: Literal["adam"] = "adam"
    position_std: float | None = None
    """Initial deviation of the learnable positions; None is the model's own (ViT 0.02, CCT 0.2)."""
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    final_learning_rate: float = 0.0
    """Where the cosine ends."""
    eval_batch_size: int = 256
    chosen: frozenset[str] = field(default=frozenset(), compare=False)
    """Fields whose values are the project's own; `augmentation.` stands before its fields.
    A note for reports, no part of a recipe's identity."""

    def steps_per_epoch(self, train_images: int, batch_size: int | None = None) -> int:
        """Optimizer steps of one epoch; the last incomplete minibatch is dropped.

        Raises:
            UsageError: the batch is empty, or larger than the training split.
        """
        batch = self.batch_size if batch_size is None else batch_size
        if not 1 <= batch <= train_images:
            raise UsageError(
                f"batch size {batch} is outside 1 to {train_images}, the number of training images"
            )
        return self.passes_per_epoch * train_images // batch

    def warm_up_steps(self, total_steps: int) -> int:
        """Steps of the linear warm-up in a run of `total_steps` (nearest, halves up)."""
        return round_half_up(exact(self.warm_up) * Fraction(total_steps))


# Not published for any task: Table 5's numbers, and what no text mentions.
_UNPUBLISHED = frozenset(
    {
        "learning_rate",
        "weight_decay",
        "warm_up",
        "label_smoothing",
        "drop_path",
        "betas",
        "eps",
        "final_learning_rate",
        "augmentation.mixing_probability",
        "augmentation.mixup_alpha",
    }
)
_CHOSEN = _UNPUBLISHED | {"normalisation"}

_CIFAR100_NORMALISATION = Normalisation(  # chosen: as in the public CCT configuration
    mean=(0.5071, 0.4867, 0.4408), deviation=(0.2675, 0.2565, 0.2761)
)
_TINY_IMAGENET_NORMALISATION = Normalisation(  # chosen: the figures in common use for its pixels
    mean=(0.4802, 0.4481, 0.3975), deviation=(0.2770, 0.2691, 0.2821)
)

CCT_CIFAR100 = Recipe(
    learning_rate=6e-4,  # chosen: the public CCT-7/3x1 configuration for CIFAR-100
    weight_decay=0.06,  # chosen: likewise
    decay_order="after",
    warm_up=0.04,  # chosen: 12 of 300 epochs
    label_smoothing=0.1,  # chosen
    drop_path=0.1,  # chosen
    batch_size=128,  # chosen
    epochs=300,  # chosen
    tf32=True,  # chosen
    passes_per_epoch=1,  # chosen, as is dropping the last incomplete minibatch: 351 steps
    augmentation=Augmentation(
        crop_padding=4,
        horizontal_flip=True,
        policy="randaugment-2-9",
        mixing=("mixup",),
        mixing_probability=1.0,  # chosen
        mixup_alpha=0.8,  # chosen
    ),
    normalisation=_CIFAR100_NORMALISATION,  # chosen
    chosen=_CHOSEN | {"batch_size", "epochs", "tf32", "passes_per_epoch"},
)

_VIT_AUGMENTATION = Augmentation(
    crop_padding=4,
    horizontal_flip=True,
    policy="autoaugment-imagenet",
    random_erasing=0.25,
    mixing=("mixup", "cutmix"),
    mixing_probability=0.5,  # chosen
    mixup_alpha=0.8,  # chosen
    cutmix_alpha=1.0,  # chosen
)

VIT_TINY_IMAGENET = Recipe(
    learning_rate=1e-3,  # chosen
    weight_decay=0.05,  # chosen
    decay_order="before",
    warm_up=0.1,  # chosen: 10 of 100 epochs
    label_smoothing=0.1,  # chosen
    drop_path=0.1,  # chosen
    batch_size=256,  # derived from 1054 steps an epoch
    epochs=100,
    tf32=False,
    passes_per_epoch=3,
    augmentation=_VIT_AUGMENTATION,
    # Published for fine-tuning too: Tiny-ImageNet's. Its figures are chosen.
    normalisation=_TINY_IMAGENET_NORMALISATION,
    chosen=_CHOSEN | {"augmentation.cutmix_alpha"},
)

VIT_CIFAR100_FINETUNE = Recipe(
    learning_rate=3e-4,  # chosen
    weight_decay=0.05,  # chosen
    decay_order="before",
    warm_up=0.05,  # chosen: 5 of 100 epochs
    label_smoothing=0.1,  # chosen
    drop_path=0.1,  # chosen
    batch_size=128,  # derived from 1054 steps an epoch
    epochs=100,
    tf32=False,
    passes_per_epoch=3,
    augmentation=_VIT_AUGMENTATION,
    # Published for fine-tuning too: Tiny-ImageNet's. Its figures are chosen.
    normalisation=_TINY_IMAGENET_NORMALISATION,
    chosen=_CHOSEN | {"augmentation.cutmix_alpha"},
)

# The digits are the project's own: everything but the kind of optimizer and schedule is chosen.
_DIGITS_CHOSEN = _UNPUBLISHED | {
    "batch_size",
    "epochs",
    "tf32",
    "passes_per_epoch",
    "position_std",
    "augmentation.crop_padding",
    "augmentation.horizontal_flip",
    "augmentation.policy",
    "augmentation.random_erasing",
    "augmentation.mixing",
}

VIT_DIGITS = Recipe(
    learning_rate=3e-3,  # chosen
    weight_decay=0.05,  # chosen
    decay_order="before",
    warm_up=0.1,  # chosen
    label_smoothing=0.1,  # chosen
    drop_path=0.0,  # chosen
    batch_size=64,  # chosen
    epochs=12,  # chosen
    tf32=False,  # chosen
    position_std=0.5,  # chosen: with timm's 0.02 a run this short never learns the positions
    augmentation=Augmentation(crop_padding=1),  # chosen; a flipped digit is another digit
    chosen=_DIGITS_CHOSEN,
)

VIT_HALF_DIGITS = replace(VIT_DIGITS, epochs=24)  # chosen: as many steps of half the images
VIT_DIGITS_FINETUNE = replace(
    VIT_HALF_DIGITS,
    learning_rate=1e-3,  # chosen: a third of that from scratch, as in the paper's tasks here
)

CCT_DIGITS = Recipe(
    learning_rate=3e-3,  # chosen
    weight_decay=0.05,  # chosen
    decay_order="after",
    warm_up=0.1,  # chosen
    label_smoothing=0.1,  # chosen
    drop_path=0.0,  # chosen
    batch_size=32,  # chosen
    epochs=8,  # chosen
    tf32=False,  # chosen
    position_std=0.5,  # chosen: as in the ViT
    augmentation=Augmentation(crop_padding=1),  # chosen
    chosen=_DIGITS_CHOSEN,
)
