"""Recorded weights, masks and optimizer state, put in front of a masked method."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from methods.base import MethodContext
from methods.budget import TransformerShape
from methods.masks import MaskedMethod, SparseWeight

Arrays = dict[str, np.ndarray]

_SHAPE = TransformerShape(layers=1, width=1, heads=1, head_dim=1, channels=1, qkv_bias=False)
"""Of no matter to masks."""


def load(file: Path) -> Arrays:
    return dict(np.load(file))


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.copy())


class Replay:
    """A method bound to the sparse layers of one golden run, instead of to a model."""

    def __init__(self, method: MaskedMethod, data: Arrays, total_steps: int) -> None:
        self.method, self.data = method, data
        layers = [n for n in range(int(data["n_layers"])) if f"u0_l{n}_in_weight" in data]
        sparsity = data.get("layer_sparsity", np.zeros(int(data["n_layers"])))
        self.weights = [
            SparseWeight(
                name=f"l{layer}",
                layer=layer,
                parameter=nn.Parameter(tensor(data[f"u0_l{layer}_in_weight"])),
                mask=tensor(data[f"u0_l{layer}_in_mask"]),
                sparsity=float(sparsity[layer]),
                active=int(data[f"u0_l{layer}_in_mask"].sum()),
            )
            for layer in layers
        ]
        self.optimizer = self._optimizer([weight.parameter for weight in self.weights])
        context = MethodContext(_SHAPE, float(data["density"]), total_steps, seed=0)
        method.bind(self.weights, self.optimizer, context)

    def _optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        if str(self.data.get("optimizer", "adamw")).startswith("sgd"):
            return SGD(parameters, lr=0.1, momentum=0.9)
        return AdamW(parameters, lr=0.1)

    def array(self, update: int, weight: SparseWeight, name: str) -> np.ndarray:
        return self.data[f"u{update}_{weight.name}_{name}"]

    def backward(self, update: int, step: int, gradient: str) -> None:
        """The method sees the recorded gradients of one backward pass."""
        for weight in self.weights:
            weight.parameter.grad = tensor(self.array(update, weight, gradient))
        self.method.after_backward(step)

    def enter(self, update: int) -> None:
        """Weights, masks and optimizer state are as recorded just before the update."""
        for weight in self.weights:
            weight.parameter.data = tensor(self.array(update, weight, "in_weight"))
            weight.mask.copy_(tensor(self.array(update, weight, "in_mask")))
            self.optimizer.state[weight.parameter].update(self._state(update, weight))
        self.method.read_counts()

    def _state(self, update: int, weight: SparseWeight) -> dict[str, Any]:
        names = {"momentum_buffer": "momentum_buffer", "exp_avg": "exp_avg"}
        names |= {"exp_avg_sq": "exp_avg_sq", "step": "opt_step"}
        prefix = f"u{update}_{weight.name}_in_"
        return {
            key: tensor(np.asarray(self.data[prefix + name]))
            for key, name in names.items()
            if prefix + name in self.data
        }

    def assert_state(self, update: int, weight: SparseWeight, when: str) -> int:
        """Optimizer state equals the recorded one `in` or `out`; returns the tensors compared."""
        compared = 0
        for key, value in self.optimizer.state[weight.parameter].items():
            name = f"u{update}_{weight.name}_{when}_{'opt_step' if key == 'step' else key}"
            if name in self.data:
                np.testing.assert_array_equal(value.numpy(), self.data[name], err_msg=name)
                compared += 1
        return compared

    def assert_equal(self, update: int, weight: SparseWeight, name: str, value: Tensor) -> None:
        np.testing.assert_array_equal(
            value.detach().numpy(), self.array(update, weight, name), err_msg=f"{update} {name}"
        )
