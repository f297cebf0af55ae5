"""A selected checkpoint as a model: for analysis, for deployment, and to train on from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_of
from torch import nn
from torch.optim import SGD

from bench.checkpoints.files import SELECTED, CheckpointError, CheckpointFolder, Header
from bench.checkpoints.packing import unpack
from bench.files import one_line
from bench.workloads.build import build_model
from bench.workloads.registry import get_workload
from methods.base import Topology
from methods.compact import resize_layer
from methods.units import find_layers


@dataclass(frozen=True)
class Selected:
    """The model of a run at the evaluation that was best on the validation split."""

    model: nn.Module
    """As its method exports it, in evaluation mode: tensors hold the units of `topology` alone;
    entries that an unstructured mask holds inactive are zeros."""
    topology: Topology
    step: int
    """Optimizer steps that it was trained for."""
    workload: str
    method: str
    density: float
    seed: int
    run_id: str


def load_selected(folder: Path | str, device: torch.device | str = "cpu") -> Selected:
    """Read the selected checkpoint of a run, with nothing of the run's process at hand.

    Args:
        folder: `results/<study>/checkpoints/<run_id>`.
        device: where the model is to be.

    Raises:
        CheckpointError: there is none, or it is newer than this program, truncated or damaged, or
            its tensors do not fit its topology. The text is one line.
    """
    files = CheckpointFolder(Path(folder))
    header = files.header(SELECTED)
    if header is None:
        raise CheckpointError(
            f"no selected checkpoint in {files.path}: keep it with `bench run --keep-checkpoints`"
        )
    model = selected_model(files, header).to(device)
    named = {name: header[name] for name in ("workload", "method", "density", "seed", "run_id")}
    return Selected(model, topology_of(header), header["step"], **named)


def selected_model(files: CheckpointFolder, header: Header) -> nn.Module:
    """The model of a selected checkpoint, on the CPU, in evaluation mode.

    Raises:
        CheckpointError: its file is damaged, or its tensors do not fit its topology.
    """
    model = build_model(get_workload(header["workload"]), header["seed"])
    unused = SGD(model.parameters())  # resizing serves an optimizer, too
    topology, (heads, channels) = topology_of(header), find_layers(model)
    widths = topology.heads_per_layer + topology.channels_per_layer
    for layer, width in zip(heads + channels, widths, strict=True):
        if layer.width != width:
            resize_layer(layer, unused, width)
    state = state_of(files, header)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise misfit(files, header, error) from error
    return model.eval()


def state_of(files: CheckpointFolder, header: Header) -> Any:
    """What was packed into a checkpoint. Raises CheckpointError if its file is damaged."""
    content = files.tensors(header)
    try:
        return unpack(header["state"], tensors_of(content))
    except (KeyError, TypeError, ValueError) as error:
        raise misfit(files, header, error) from error


def misfit(files: CheckpointFolder, header: Header, error: Exception) -> CheckpointError:
    """For state that is whole and yet not what this program would have written."""
    text = one_line(error)
    return CheckpointError(
        f"checkpoint {files.path / header['tensors']} does not fit {header['method']} on"
        f" {header['workload']} ({text[:200]}): remove {files.path} to start that run anew"
    )


def topology_of(header: Header) -> Topology:
    """The units of every layer that a checkpoint names."""
    widths = header["topology"]
    return Topology(tuple(widths["heads_per_layer"]), tuple(widths["channels_per_layer"]))
