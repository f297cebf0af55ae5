"""The ViT's FFN against what one would take in place of compact tensors: one Markdown table.

    python -m tests.speed.rivals [--workload W] [--batch B] [--threads N] [--device D] [--rounds R]

Forward and backward pass of one FFN (linear, GELU, linear), time over that of the dense FFN: below
1 is faster. All take turns in random order; a round's time of each is divided by the dense one of
the same round, and the table has the median over rounds with the middle 95 % of them. Rivals that
are packages come with `pip install .[rivals]`. Of structured rivals a density is the share of FFN
channels, of unstructured ones the share of weights: the same number of products in either case.
"""

import argparse
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn

from bench.workloads.registry import get_workload
from bench.workloads.shapes import ModelShape
from methods.rounding import exact, round_half_up

DENSITIES = (0.1, 0.3, 0.5)
WARM_UPS = 3
STEPS = 5
"""Passes of one turn."""


class NotAvailableError(Exception):
    """Why a rival cannot be measured here."""


@dataclass(frozen=True)
class Case:
    """What all rivals compute: tokens [rows, width] to [rows, width] over `channels`."""

    width: int
    channels: int
    rows: int
    device: torch.device

    @classmethod
    def of(cls, shape: ModelShape, batch: int, device: torch.device) -> "Case":
        return cls(shape.blocks.width, shape.blocks.channels, batch * shape.tokens, device)


class DenseFfn(nn.Module):
    """Rows [rows, width] to the same, in between `channels` wide."""

    def __init__(self, case: Case, channels: int | None = None) -> None:
        super().__init__()
        channels = case.channels if channels is None else channels
        self.fc1 = nn.Linear(case.width, channels, device=case.device)
        self.fc2 = nn.Linear(channels, case.width, device=case.device)

    def forward(self, rows: Tensor) -> Tensor:
        return self.fc2(nn.functional.gelu(self.fc1(rows)))

    def after_backward(self) -> None:
        """What a method does to the gradients in each step."""


class MaskedFfn(DenseFfn):
    """Full-size weights, zero where a random mask is; their gradients are masked in each step."""

    def __init__(self, case: Case, density: float) -> None:
        super().__init__(case)
        weights = (self.fc1.weight, self.fc2.weight)
        self.masks = [_mask(weight, density) for weight in weights]
        with torch.no_grad():
            for weight, mask in zip(weights, self.masks, strict=True):
                weight.mul_(mask)

    def after_backward(self) -> None:
        for layer, mask in zip((self.fc1, self.fc2), self.masks, strict=True):
            assert layer.weight.grad is not None
            layer.weight.grad.mul_(mask)


class CsrLinear(nn.Module):
    """A linear map whose weights are a CSR matrix; only stored entries have gradients."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().to_sparse_csr())
        self.bias = nn.Parameter(bias.detach().clone())

    def forward(self, rows: Tensor) -> Tensor:
        return torch.sparse.mm(self.weight, rows.t()).t() + self.bias


class CsrFfn(DenseFfn):
    """`MaskedFfn`, in torch's own sparse format."""

    def __init__(self, case: Case, density: float) -> None:
        super().__init__(case)
        masked = MaskedFfn(case, density)
        self.fc1: Any = CsrLinear(masked.fc1.weight, masked.fc1.bias)
        self.fc2: Any = CsrLinear(masked.fc2.weight, masked.fc2.bias)


def compact(case: Case, density: float) -> nn.Module:
    """As many channels as the density leaves: what this project's compact methods train."""
    return DenseFfn(case, round_half_up(exact(density) * case.channels))


def sparselab(case: Case, density: float) -> nn.Module:
    """sparselab.SparseLinear in place of both maps."""
    if case.device.type != "cpu":
        raise NotAvailableError("sparselab computes on the CPU")
    package, ffn = _package("sparselab"), DenseFfn(case)
    made = package.SparseLinear
    ffn.fc1 = made(case.width, case.channels, sparsity=1 - density)
    ffn.fc2 = made(case.channels, case.width, sparsity=1 - density)
    return ffn


def semi_structured(case: Case, density: float) -> nn.Module:
    """Two of four weights, in half precision: the form that NVIDIA's tensor cores skip."""
    if case.device.type != "cuda":
        raise NotAvailableError("2:4 needs a CUDA GPU")
    if density != 0.5:
        raise NotAvailableError("2:4 is density 0.5")
    training = _package("torchao.sparsity.training")
    ffn = DenseFfn(case).half()
    wanted = {"fc1": training.SemiSparseLinear, "fc2": training.SemiSparseLinear}
    training.swap_linear_with_semi_sparse_linear(ffn, wanted)
    return ffn


RIVALS: Mapping[str, Callable[[Case, float], nn.Module]] = {
    "compact dense": compact,
    "masked dense": MaskedFfn,
    "torch.sparse CSR": CsrFfn,
    "sparselab": sparselab,
    "2:4 (over dense in half precision)": semi_structured,
}


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except Exception as error:  # a package may fail in any way where it does not fit
        reason = "is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        raise NotAvailableError(f"{name} {reason}") from error


def _mask(weight: Tensor, density: float) -> Tensor:
    """Exactly so many active entries, anywhere."""
    count = round_half_up(exact(density) * weight.numel())
    order = torch.randperm(weight.numel(), device=weight.device)
    return (order < count).view_as(weight)


def one_pass(ffn: nn.Module, rows: Tensor, gradient: Tensor) -> None:
    """Forward and backward, with a gradient of the input as in the middle of a model."""
    ffn.zero_grad(set_to_none=True)
    rows.grad = None
    ffn(rows).backward(gradient)
    ffn.after_backward()  # pyright: ignore[reportCallIssue]


def turn_ms(ffn: nn.Module, rows: Tensor, gradient: Tensor) -> float:
    """Milliseconds of a pass, the mean of one turn."""
    one_pass(ffn, rows, gradient)  # another rival has used the caches
    _wait(rows.device)
    started = time.perf_counter()
    for _ in range(STEPS):
        one_pass(ffn, rows, gradient)
    _wait(rows.device)
    return (time.perf_counter() - started) * 1e3 / STEPS


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ratios(case: Case, rounds: int) -> dict[tuple[str, float], list[float] | str]:
    """Time over dense, of every round; or why there is none."""
    found: dict[tuple[str, float], list[float] | str] = {}
    entries: dict[tuple[str, float], nn.Module] = {}
    for name, build in RIVALS.items():
        for density in DENSITIES:
            try:
                entries[name, density] = ffn = build(case, density)
                for _ in range(WARM_UPS):
                    one_pass(ffn, *_inputs(case, ffn))
                found[name, density] = []
            except Exception as error:  # of a kernel that does not take this case, too
                entries.pop((name, density), None)
                text = " ".join(str(error).split())
                known = isinstance(error, NotAvailableError)
                found[name, density] = text if known else f"{type(error).__name__}: {text[:80]}"
    references = {_dtype(ffn): DenseFfn(case).to(_dtype(ffn)) for ffn in entries.values()}
    inputs = {dtype: _inputs(case, dense) for dtype, dense in references.items()}
    order: list[tuple[Any, nn.Module]] = [*entries.items(), *references.items()]
    shuffle = random.Random(0).shuffle
    for number in range(rounds + 1):
        shuffle(order)
        times = {key: turn_ms(ffn, *inputs[_dtype(ffn)]) for key, ffn in order}
        if number:  # the first round warms up
            for key, ffn in entries.items():
                values = found[key]
                assert isinstance(values, list)
                values.append(times[key] / times[_dtype(ffn)])
    return found


def _dtype(ffn: nn.Module) -> torch.dtype:
    return next(parameter.dtype for parameter in ffn.parameters())


def _inputs(case: Case, ffn: nn.Module) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(0)
    rows, gradient = (torch.randn(case.rows, case.width, generator=make) for _ in range(2))
    like = next(ffn.parameters())
    rows, gradient = (t.to(case.device, like.dtype) for t in (rows, gradient))
    return rows.requires_grad_(), gradient


def table(found: Mapping[tuple[str, float], list[float] | str]) -> str:
    """Markdown: a row per rival, a column per density."""
    lines = ["| FFN, time over dense | " + " | ".join(f"{d:g}" for d in DENSITIES) + " |"]
    lines.append("|---" + "|---:" * len(DENSITIES) + "|")
    for name in RIVALS:
        cells = (_cell(found[name, density]) for density in DENSITIES)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: list[float] | str) -> str:
    if isinstance(values, str):
        return f"*not available*: {values}"
    cuts = quantiles(values, n=40, method="inclusive") if len(values) > 1 else values
    return f"{median(values):.2f} [{cuts[0]:.2f}, {cuts[-1]:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description="The FFN against its rivals.")
    parser.add_argument("--workload", default="vit-tiny-imagenet")
    parser.add_argument("--batch", type=int, default=16, help="images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)  # of packages that are not loaded yet
    torch.manual_seed(0)
    case = Case.of(get_workload(asked.workload).shape, asked.batch, torch.device(asked.device))
    print(table(ratios(case, asked.rounds)))
    where = f"{asked.device}, {asked.threads} threads, torch {torch.__version__}"
    print(
        f"\n{asked.workload}: {case.rows} tokens of {case.width}, {case.channels} channels; {where}"
    )


if __name__ == "__main__":
    main()
