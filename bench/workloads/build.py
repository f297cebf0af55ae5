"""From a workload's description to a model and data: the only place that chooses between kinds."""

from collections.abc import Callable

import torch
from torch import nn

from bench.datasets.location import Stored
from bench.workloads.cct import build_cct
from bench.workloads.data import Data
from bench.workloads.recipes import Recipe
from bench.workloads.registry import Workload
from bench.workloads.shapes import CctShape, ModelShape, VitShape
from bench.workloads.synthetic import SyntheticData
from bench.workloads.vit import build_vit
from methods.chance import torch_generator

_DataLoader = Callable[[Workload, int, int, torch.device], Data]


def build_model(workload: Workload, seed: int) -> nn.Module:
    """The dense model in float32 on the CPU, in training mode; the seed alone decides its weights.

    The global random state is the same afterwards as before.
    """
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: that would also reseed the accelerators' generators.
        generator = torch_generator(torch.device("cpu"), seed, "model")
        torch.default_generator.set_state(generator.get_state())
        return _model(workload.shape, workload.recipe)


def load_data(
    workload: Workload,
    seed: int,
    batch_size: int,
    device: torch.device | str,
    stored: Stored | None = None,
) -> Data:
    """The workload's images on `device`, in the order that the seed decides.

    Args:
        stored: its decoded data set; without one its images are what needs no data set.

    Raises:
        UsageError: the batch is empty, or larger than the training split.
    """
    workload.steps_per_epoch(batch_size)  # refuses a batch that the schedule cannot have
    if stored:
        from bench.datasets.batches import StoredData  # torchvision, which other runs do not need

        return StoredData(workload, stored, batch_size, seed, torch.device(device))
    return _LOADERS[workload.data](workload, seed, batch_size, torch.device(device))


def _model(shape: ModelShape, recipe: Recipe) -> nn.Module:
    match shape:
        case VitShape():
            return build_vit(shape, recipe.drop_path, recipe.position_std)
        case CctShape():
            return build_cct(shape, recipe.drop_path, recipe.position_std)
    raise TypeError(f"no model for a {type(shape).__name__}")


def _digits(workload: Workload, seed: int, batch_size: int, device: torch.device) -> Data:
    from bench.workloads.digits import DigitsData  # scikit-learn, which synthetic runs do not need

    shape, recipe = workload.shape, workload.recipe
    return DigitsData(shape.image_size, recipe, batch_size, seed, device, workload.digits)


def _synthetic(workload: Workload, seed: int, batch_size: int, device: torch.device) -> Data:
    return SyntheticData(workload.shape, batch_size, seed, device)


_LOADERS: dict[str, _DataLoader] = {"digits": _digits, "synthetic": _synthetic}
