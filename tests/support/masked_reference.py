"""BARTER on a full-size, masked model: an independent realisation of the same decisions.

Every unit of the dense model has a slot. Inactive slots hold zeros, their gradients are zeroed,
their optimizer state is zero. Nothing here calls the product's scores, pool or compact code: only
its selection (on scores of this file's own) and its noise draw are shared. With the same seed a
compact run must agree with this one in float64 to rounding.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from methods.chance import torch_generator
from methods.compact import split_noise
from methods.selection import ByScore, Candidates, Transfer, select_transfer


@dataclass
class Layer:
    """One attention or FFN of the dense model, its active slots in the compact order."""

    unit_type: str
    module: nn.Module
    total: int
    slots: list[int]
    free_from: list[float] = field(default_factory=list)
    prune: list[float] = field(default_factory=list)
    growth: list[float] = field(default_factory=list)
    activation: Tensor | None = None

    def __post_init__(self) -> None:
        self.free_from = [0.0] * len(self.slots)
        self.prune = [0.0] * len(self.slots)
        self.growth = [0.0] * len(self.slots)
        self.consumer().register_forward_pre_hook(self._keep)

    def consumer(self) -> nn.Module:
        return self.module.get_submodule("proj" if self.unit_type == "head" else "fc2")

    def _keep(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if torch.is_grad_enabled():
            inputs[0].retain_grad()
            self.activation = inputs[0]

    def views(self, slots: list[int]) -> list[tuple[nn.Parameter, tuple, bool]]:
        """(parameter, index of the slots' entries, whether they are output weights)."""
        module = self.module
        if self.unit_type == "channel":
            rows = torch.tensor(slots)
            return [
                (module.get_parameter("fc1.weight"), (rows,), False),
                (module.get_parameter("fc1.bias"), (rows,), False),
                (module.get_parameter("fc2.weight"), (slice(None), rows), True),
            ]
        size = module.get_parameter("proj.weight").shape[1] // self.total
        columns = torch.cat([torch.arange(size) + slot * size for slot in slots])
        rows = torch.cat([columns + third * self.total * size for third in range(3)])
        found = [
            (module.get_parameter("qkv.weight"), (rows,), False),
            (module.get_parameter("proj.weight"), (slice(None), columns), True),
        ]
        if any(name == "qkv.bias" for name, _ in module.named_parameters()):
            found.append((module.get_parameter("qkv.bias"), (rows,), False))
        return found

    def score(self, beta: float) -> None:
        """Scores of the active slots, sample by sample, and their running means."""
        assert self.activation is not None
        assert self.activation.grad is not None
        product = (self.activation * self.activation.grad).detach()
        size = product.shape[-1] // self.total
        for place, slot in enumerate(self.slots):
            of_unit = product[..., slot * size : (slot + 1) * size]
            signed = [abs(float(sample.sum())) for sample in of_unit]
            prune, growth = sum(signed) / len(signed), float(of_unit.abs().mean())
            self.prune[place] = beta * self.prune[place] + (1 - beta) * prune
            self.growth[place] = beta * self.growth[place] + (1 - beta) * growth


class MaskedBarter:
    """Drives a dense model so that it does what the compact one does."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        kept: dict[str, list[list[int]]],
        beta: float,
        noise_scale: float,
        cooldown: dict[str, float],
        last_collecting: dict[str, int],
        seed: int,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.beta, self.noise_scale, self.seed = beta, noise_scale, seed
        self.cooldown, self.last_collecting = cooldown, last_collecting
        self.layers: dict[str, list[Layer]] = {"head": [], "channel": []}
        self.initial: dict[str, list[int]] = {}
        for block in model.blocks:  # pyright: ignore
            attention, ffn = block.attn, block.mlp
            index = len(self.layers["head"])
            self.layers["head"].append(
                Layer("head", attention, attention.num_heads, list(kept["head"][index]))
            )
            self.layers["channel"].append(
                Layer("channel", ffn, ffn.fc1.out_features, list(kept["channel"][index]))
            )
        for unit_type, layers in self.layers.items():
            self.initial[unit_type] = [len(layer.slots) for layer in layers]
            for layer in layers:
                self._clear_inactive(layer, data=True)

    def after_backward(self, step: int) -> None:
        for unit_type, layers in self.layers.items():
            for layer in layers:
                if step <= self.last_collecting[unit_type] and layer.slots:
                    layer.score(self.beta)
                self._clear_inactive(layer, data=False)

    def transfer(self, unit_type: str, step: int, attempt: int) -> Transfer:
        layers = self.layers[unit_type]
        candidates = Candidates(
            prune_scores=[np.array(layer.prune) for layer in layers],
            growth_scores=[np.array(layer.growth) for layer in layers],
            in_cooldown=[np.array([step < t for t in layer.free_from], bool) for layer in layers],
            initial_widths=self.initial[unit_type],
            max_widths=[layer.total for layer in layers],
            min_width=0 if unit_type == "head" else 1,
        )
        chosen = select_transfer(candidates, ByScore())
        assert isinstance(chosen, Transfer), "the test's schedule must not skip"
        self._clone(layers[chosen.receiver], chosen.parent, step, attempt)
        donor = layers[chosen.donor_layer]
        for values in (donor.slots, donor.prune, donor.growth, donor.free_from):
            del values[chosen.donor_unit]
        self._clear_inactive(donor, data=True)
        return chosen

    @torch.no_grad()
    def _clone(self, layer: Layer, parent: int, step: int, attempt: int) -> None:
        old = layer.slots[parent]
        new = min(set(range(layer.total)) - set(layer.slots))
        for (weight, source, is_output), (_, target, _) in zip(
            layer.views([old]), layer.views([new]), strict=True
        ):
            values = weight[source].clone()
            if is_output:
                generator = torch_generator(
                    weight.device, self.seed, "split noise", layer.unit_type, step, attempt
                )
                noise = split_noise(values, self.noise_scale, generator)
                weight[source], weight[target] = values / 2 + noise, values / 2 - noise
            else:
                weight[target] = values
            for state in self._moments(weight):
                state[source] = 0
                state[target] = 0
        layer.slots.append(new)
        for scores in (layer.prune, layer.growth):
            scores[parent] /= 2
            scores.append(scores[parent])
        protected = step + self.cooldown[layer.unit_type]
        layer.free_from[parent] = protected
        layer.free_from.append(protected)

    @torch.no_grad()
    def _clear_inactive(self, layer: Layer, data: bool) -> None:
        """Zero what inactive slots hold: gradients, or weights and optimizer state."""
        inactive = sorted(set(range(layer.total)) - set(layer.slots))
        for weight, index, _ in layer.views(inactive) if inactive else ():
            if data:
                weight[index] = 0
                for state in self._moments(weight):
                    state[index] = 0
            elif weight.grad is not None:
                weight.grad[index] = 0

    def _moments(self, weight: nn.Parameter) -> list[Tensor]:
        state = self.optimizer.state.get(weight, {})
        return [v for k, v in state.items() if k != "step" and isinstance(v, Tensor)]
