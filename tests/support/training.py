"""Small models in float64 and the training loop that drives a method in tests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer

from bench.workloads.cct import build_cct
from bench.workloads.shapes import CctShape, VitShape
from bench.workloads.vit import build_vit
from methods.base import MethodContext, SparseMethod, TopologyUpdate
from methods.budget import TransformerShape

VIT = TransformerShape(layers=4, width=16, heads=4, head_dim=4, channels=20, qkv_bias=True)
CCT = TransformerShape(layers=4, width=16, heads=4, head_dim=4, channels=20, qkv_bias=False)

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "adam": lambda p: Adam(p, lr=1e-2, foreach=False),
    "adam-foreach": lambda p: Adam(p, lr=1e-2, foreach=True),
    "adam-fused": lambda p: Adam(p, lr=1e-2, fused=True),
    "adam-amsgrad": lambda p: Adam(p, lr=1e-2, amsgrad=True),
    "adamw": lambda p: AdamW(p, lr=1e-2, weight_decay=0.05, foreach=False),
    "adamw-foreach": lambda p: AdamW(p, lr=1e-2, weight_decay=0.05, foreach=True),
    "adamw-fused": lambda p: AdamW(p, lr=1e-2, weight_decay=0.05, fused=True),
    "sgd": lambda p: SGD(p, lr=1e-2),
    "sgd-momentum": lambda p: SGD(p, lr=1e-2, momentum=0.9, weight_decay=1e-3),
    "sgd-nesterov": lambda p: SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
}


def small_vit(seed: int = 0, shape: TransformerShape = VIT) -> nn.Module:
    return _in_double(lambda: build_vit(VitShape(shape, 8, 5, patch_size=4), 0.0), seed)


def small_cct(seed: int = 0, shape: TransformerShape = CCT) -> nn.Module:
    return _in_double(lambda: build_cct(CctShape(shape, 8, 5), 0.0), seed)


def _in_double(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build().double()
        # Published initialisations start biases at zero, where a wrong bias slice would not show.
        for parameter in model.parameters():
            with torch.no_grad():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def batch(step: int, size: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    images = torch.randn(size, 3, 8, 8, generator=generator, dtype=torch.float64)
    return images, torch.randint(5, (size,), generator=generator)


@dataclass
class Trained:
    """A method on a model, driven step by step."""

    model: nn.Module
    optimizer: Optimizer
    method: SparseMethod
    decay: float = 0.0
    """Explicit decoupled decay: positive after the optimizer step, negative before it."""

    def step(self, step: int) -> tuple[float, TopologyUpdate]:
        images, targets = batch(step)
        loss = cross_entropy(self.model(images), targets)
        loss.backward()
        self.method.after_backward(step)
        if not self.method.replaces_optimizer_step(step):
            if self.decay < 0:
                self._decay()
            self.optimizer.step()
            if self.decay > 0:
                self._decay()
        update = self.method.update_topology(step)
        self.method.after_step(step)
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item(), update

    def run(self, first: int, last: int) -> Iterator[tuple[int, float, TopologyUpdate]]:
        for step in range(first, last + 1):
            yield step, *self.step(step)

    def _decay(self) -> None:
        with torch.no_grad():
            for group in self.optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.mul_(1 - abs(self.decay))


def attach(
    method: SparseMethod,
    model: nn.Module,
    total_steps: int,
    density: float = 0.5,
    optimizer: str = "adam",
    seed: int = 0,
    decay: float = 0.0,
    shape: TransformerShape | None = None,
) -> Trained:
    """A method on a fresh optimizer, ready for step 1."""
    parameters = list(model.parameters())
    trained = Trained(model, OPTIMIZERS[optimizer](parameters), method, decay)
    if shape is None:
        shape = CCT if hasattr(model, "tokenizer") else VIT
    method.attach(model, trained.optimizer, MethodContext(shape, density, total_steps, seed))
    return trained


def assert_equal_models(a: nn.Module, b: nn.Module) -> None:
    """Names and values are the same, bit for bit."""
    for (name, left), (other, right) in zip(
        a.state_dict().items(), b.state_dict().items(), strict=True
    ):
        assert name == other
        assert torch.equal(left, right), name
