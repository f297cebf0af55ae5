"""Keeps the checkpoints of a run that is under way, and lets it go on from the last one."""

from typing import Any

from safetensors.torch import save as tensors_to_bytes
from torch import nn

from bench.checkpoints.files import (
    CHECKPOINT_VERSION,
    LAST,
    SELECTED,
    CheckpointFolder,
    Header,
)
from bench.checkpoints.model import misfit, selected_model
from bench.checkpoints.packing import Tensors, pack
from bench.checkpoints.policy import Checkpointing
from bench.checkpoints.restore import restore
from bench.session import Session
from bench.snapshot import Snapshot
from bench.train import Training
from methods.base import Topology
from methods.units import find_layers


class CheckpointKeeper:
    """Writes a run's checkpoints; see `bench.checkpoints.files` for the order of the files."""

    def __init__(self, files: CheckpointFolder, session: Session, asked: Checkpointing) -> None:
        self._files, self._spec, self._asked = files, session.spec, asked
        self._selected: Header | None = None
        self.resumed = 0
        """How often the run has gone on from a checkpoint, in all its processes."""

    def due(self, step: int) -> bool:
        """Whether `save` is to be called after this step (from 1)."""
        return self._asked.due(self._spec, step)

    def save(self, training: Training) -> None:
        """Write down where a training stands, between two steps and outside of what is timed.

        Raises:
            UsageError: the files cannot be written.
        """
        session, selected = training.session, training.selected
        if selected and (self._selected is None or self._selected["step"] != selected[0]):
            state = selected[1].state_dict()
            self._selected = self._write(SELECTED, selected[0], _widths(selected[1]), state)
        snapshot = Snapshot.take(session, keep_on="cpu")
        state = {"session": vars(snapshot), "training": training.state_dict()}
        last = self._write(LAST, len(training.steps), session.method.topology(), state)
        last |= {"resumed": self.resumed, "selected": self._selected}
        if self._selected:
            self._files.write_header(SELECTED, self._selected)
        self._files.write_header(LAST, last)
        self._files.clean(last, self._selected)

    def resume(self, training: Training) -> None:
        """Bring a fresh training to the last checkpoint, where there is one.

        Raises:
            CheckpointError: it cannot be used.
        """
        header = self._files.header(LAST, self._spec)
        if header is None:
            return
        chosen = header["selected"]
        selected = None
        if chosen:
            model = selected_model(self._files, chosen).to(training.session.device)
            selected = chosen["step"], model
        # Random numbers are in it: nothing may draw any between here and the next step.
        state = restore(self._files, header, training.session)
        try:
            training.load_state_dict(state["training"], selected)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise misfit(self._files, header, error) from error
        self._selected = chosen
        self.resumed = header["resumed"] + 1
        # At once: a kill before the next checkpoint would forget it.
        self._files.write_header(LAST, header | {"resumed": self.resumed})

    def _write(self, kind: str, step: int, topology: Topology, state: Any) -> Header:
        """Write the tensors of a checkpoint and return its header, which is not written yet."""
        spec, tensors = self._spec, Tensors()
        packed = pack(state, tensors, kind)
        return {
            "schema_version": CHECKPOINT_VERSION,
            "kind": kind,
            "run_id": spec.run_id,
            "workload": spec.workload,
            "method": spec.method,
            "density": spec.density,
            "seed": spec.seed,
            "step": step,
            "topology": {name: list(widths) for name, widths in vars(topology).items()},
            **self._files.write_tensors(kind, step, tensors_to_bytes(tensors)),
            "state": packed,
        }


def _widths(model: nn.Module) -> Topology:
    """The units that a model's tensors hold, whatever is masked in them."""
    heads, channels = find_layers(model)
    return Topology(tuple(layer.width for layer in heads), tuple(layer.width for layer in channels))
