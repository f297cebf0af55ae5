"""The files of a run's checkpoints. No torch: whoever starts runs looks at them first.

    results/<study>/checkpoints/<run_id>/last.json          where a run goes on
                                        /selected.json      the model selected on validation
                                        /last-<step>-<hash>.safetensors, selected-...

A JSON file names its tensors by step and content, and is renamed into place after them: whatever
moment a kill picks, it finds its own. Tensors that no JSON names go last.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.errors import UsageError
from bench.files import cannot, clean_partial, read_json, write_aside, write_text_atomically
from bench.run_spec import RunSpec
from bench.workloads.registry import get_workload

CHECKPOINT_VERSION = 1
"""Of the files' form; a reader refuses newer ones."""

LAST, SELECTED = "last", "selected"

Header = dict[str, Any]
"""What a checkpoint's JSON says: `schema_version`, `run_id`, `workload`, `method`, `step`,
`topology`, the file of its tensors with size and hash, and the state that is no tensor."""


class CheckpointError(UsageError):
    """A checkpoint that must not be used, and why."""


class CheckpointFolder:
    """The checkpoints of one run.

    Args:
        path: of the run's own folder; need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_tensors(self, kind: str, step: int, content: bytes) -> Header:
        """Write a safetensors file; returns how a header names it."""
        digest = hashlib.sha256(content).hexdigest()
        # The same step may come again, in another process, and with other rounding.
        name = f"{kind}-{step}-{digest[:12]}.safetensors"
        write_aside(self.path / name, lambda temporary: temporary.write_bytes(content))
        return {"tensors": name, "bytes": len(content), "sha256": digest}

    def write_header(self, kind: str, header: Header) -> None:
        """Make a checkpoint, whose tensors are written, the current one of its kind."""
        content = header | {"digest": _digest(header)}
        write_text_atomically(self.path / f"{kind}.json", json.dumps(content, allow_nan=False))

    def header(self, kind: str, spec: RunSpec | None = None) -> Header | None:
        """The current checkpoint's header, its tensors checked; None where there is none.

        Args:
            spec: the run that it must be of; None accepts any.

        Raises:
            CheckpointError: newer than this program, of another run, truncated, damaged, or of a
                topology that its workload cannot have.
        """
        path = self.path / f"{kind}.json"
        if not path.exists():
            return None
        try:
            header = read_json(path)
        except UsageError as error:
            raise self._damaged(path, str(error)) from error
        self._check(path, header)
        if spec and header["run_id"] != spec.run_id:
            raise CheckpointError(
                f"{path} is a checkpoint of run {header['run_id']}, not of {spec.run_id}:"
                " move it out of that folder"
            )
        self.tensors(header)
        if header.get("selected"):  # that a run goes on with
            self.tensors(header["selected"])
        return header

    def require(self, kind: str, run_id: str) -> Header:
        """The header of a checkpoint that another run starts from.

        Raises:
            CheckpointError: it is missing, of another run, or as in `header`.
        """
        header = self.header(kind)
        if header is None:
            raise CheckpointError(f"no {kind} checkpoint in {self.path}: it was there when asked")
        if header["run_id"] != run_id:
            raise CheckpointError(
                f"{self.path} holds a checkpoint of run {header['run_id']}, not of {run_id}"
            )
        return header

    def _check(self, path: Path, header: Any) -> None:
        """Raise CheckpointError unless a header is whole and fits its workload."""
        if not isinstance(header, dict) or not isinstance(header.get("schema_version"), int):
            raise self._damaged(path, "it names no schema version")
        version = header["schema_version"]
        if version > CHECKPOINT_VERSION:
            raise CheckpointError(
                f"{path} has schema version {version}, newer than this program's"
                f" {CHECKPOINT_VERSION}: use a newer bench, or remove {self.path}"
            )
        if header.get("digest") != _digest(header):
            raise self._damaged(path, "its content is not what was written")
        if not _fits(header["workload"], header["topology"]):
            raise CheckpointError(
                f"{path} has a topology that does not fit {header['workload']}: remove {self.path}"
            )

    def tensors(self, header: Header) -> bytes:
        """The content of a header's safetensors file. Raises CheckpointError if it is not that
        which was written."""
        path = self.path / header["tensors"]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise self._damaged(path, cannot("read", path, error)) from error
        if len(content) != header["bytes"]:
            raise self._damaged(path, f"{len(content):,} bytes instead of {header['bytes']:,}")
        if hashlib.sha256(content).hexdigest() != header["sha256"]:
            raise self._damaged(path, "its content is not what was written")
        return content

    def clean(self, *headers: Header | None) -> None:
        """Remove tensors that none of these headers names, and what dead writers left."""
        named = {header["tensors"] for header in headers if header}
        for path in self.path.glob("*.safetensors"):
            if path.name not in named:
                path.unlink(missing_ok=True)
        clean_partial(self.path)

    def remove(self) -> None:
        """Remove all checkpoints of the run."""
        # Without its header the rest is nothing, should a kill come in between.
        (self.path / f"{LAST}.json").unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # not empty: other runs' are there
            self.path.parent.rmdir()

    def _damaged(self, path: Path, how: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {path} is damaged ({how}): remove {self.path} to start that run anew"
        )


def _digest(header: Mapping[str, Any]) -> str:
    content = {key: value for key, value in header.items() if key != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fits(workload: str, topology: Mapping[str, list[int]]) -> bool:
    blocks = get_workload(workload).shape.blocks
    limits = {"heads_per_layer": blocks.heads, "channels_per_layer": blocks.channels}
    return topology.keys() == limits.keys() and all(
        len(widths) == blocks.layers and all(0 <= width <= limits[key] for width in widths)
        for key, widths in topology.items()
    )
