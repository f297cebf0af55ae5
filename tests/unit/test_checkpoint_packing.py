"""Nested state through JSON and safetensors: exactly what it was."""

import json
from math import isnan
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from bench.checkpoints.packing import Tensors, pack, unpack
from tests.support.checkpointed import differences


def through_files(state: Any) -> Any:
    tensors = Tensors()
    text = json.dumps(pack(state, tensors, "state"), allow_nan=False)
    return unpack(json.loads(text), load(save(tensors)))


def test_everything_comes_back_as_it_was() -> None:
    shared = torch.arange(4.0)
    state = {
        "tensors": [torch.rand(2, 3, dtype=torch.float64).T, torch.tensor(7), torch.zeros(2, 0)],
        "mask": torch.tensor([True, False]),
        "same twice": (shared, shared[:2]),
        "numbers": [0.1, 1e-320, -0.0, 2**60, True, None, "text"],
        "far": [float("inf"), float("-inf")],
        3: {"key of another type": ()},
        "empty": {},
    }
    assert differences(through_files(state), state) == []


def test_not_a_number_comes_back() -> None:
    assert isnan(through_files({"loss": float("nan")})["loss"])


@pytest.mark.parametrize("state", [{"a": object()}, {(1, 2): 0}, [b"bytes"]])
def test_what_has_no_form_is_refused(state: Any) -> None:
    with pytest.raises(TypeError, match="a checkpoint has no form"):
        pack(state, Tensors(), "state")
