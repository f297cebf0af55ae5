"""Fine-tuning: a new run's dense weights are those of another run's selected model."""

from pathlib import Path

from torch import nn

from bench.checkpoints.files import SELECTED, CheckpointFolder
from bench.checkpoints.model import misfit, selected_model
from bench.start import Start

CLASSIFIER = "head."
"""Begins the names of what a new task learns anew."""


def inherit(model: nn.Module, start: Start) -> None:
    """Load the dense weights of `start` into a dense model, but for the classifier.

    Whatever a sparse method selects afterwards, compact or masked, it selects from these.

    Raises:
        CheckpointError: the checkpoint cannot be used, or is of another architecture.
    """
    files = CheckpointFolder(Path(start.folder))
    header = files.require(SELECTED, start.run_id)
    state = selected_model(files, header).state_dict()
    inherited = {name: value for name, value in state.items() if not name.startswith(CLASSIFIER)}
    try:
        model.load_state_dict(model.state_dict() | inherited)
    except RuntimeError as error:
        raise misfit(files, header, error) from error
