"""Closed-form costs against published figures, real models and torch's own counter."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from bench.workloads.build import build_model
from bench.workloads.registry import WORKLOADS, Workload
from bench.workloads.shapes import CctShape, VitShape
from methods.budget import TransformerShape

ALL = list(WORKLOADS.values())
BY_NAME = [pytest.param(workload, id=workload.name) for workload in ALL]


def dense_units(workload: Workload) -> tuple[int, int]:
    blocks = workload.shape.blocks
    return blocks.total_heads, blocks.total_channels


def shrink(model: nn.Module, heads: list[int], channels: list[int]) -> None:
    """Give every block of `model` a compact shape; the values do not matter here."""
    for block, n_heads, n_channels in zip(model.blocks, heads, channels, strict=True):  # pyright: ignore[reportArgumentType]
        attn, mlp = block.attn, block.mlp
        rows = n_heads * attn.head_dim
        attn.num_heads, attn.attn_dim = n_heads, rows
        for module, name, size in (
            (attn.qkv, "weight", (slice(3 * rows),)),
            (attn.qkv, "bias", (slice(3 * rows),)),
            (attn.proj, "weight", (slice(None), slice(rows))),
            (mlp.fc1, "weight", (slice(n_channels),)),
            (mlp.fc1, "bias", (slice(n_channels),)),
            (mlp.fc2, "weight", (slice(None), slice(n_channels))),
        ):
            old = getattr(module, name)
            if old is not None:
                setattr(module, name, nn.Parameter(old.detach()[size].clone()))


@contextmanager
def counting_every_product() -> Iterator[FlopCounterMode]:
    """torch's counter, with attention taken apart into products that it can see."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield counter


def counted_macs(model: nn.Module, workload: Workload, images: int = 1) -> tuple[float, float]:
    """Forward and training MACs per image as torch counts them."""
    size = workload.shape.image_size
    batch = torch.zeros(images, 3, size, size)
    targets = torch.zeros(images, dtype=torch.int64)
    with counting_every_product() as counter:
        loss = cross_entropy(model(batch), targets)
        forward = counter.get_total_flops()
        loss.backward()
        training = counter.get_total_flops()
    return forward / 2 / images, training / 2 / images


def test_published_macs_of_the_dense_vit() -> None:
    shape = WORKLOADS["vit-cifar100-finetune"].shape
    assert shape.macs_forward(108, 3456) == 189_503_616
    assert shape.macs_training(108, 3456) == 566_151_552
    assert shape.first_layer_macs == 2_359_296
    assert shape.tokens == 65


def test_published_macs_do_not_depend_on_torch_seeing_attention() -> None:
    # 174,902,016 is what torch counts where fused attention counts as zero (issue 2).
    shape = WORKLOADS["vit-cifar100-finetune"].shape
    attention = 108 * 2 * 65**2 * 16
    assert shape.macs_forward(108, 3456) - attention == 174_902_016


def test_tokens_of_the_workloads() -> None:
    tokens = {name: workload.shape.tokens for name, workload in WORKLOADS.items()}
    assert tokens == {
        "vit-digits": 17,
        "cct-digits": 64,
        "vit-digits-0-4": 17,
        "vit-digits-5-9": 17,
        "cct-cifar100": 256,
        "vit-tiny-imagenet": 65,
        "vit-cifar100-finetune": 65,
    }


def test_tiny_vit_by_hand() -> None:
    blocks = TransformerShape(layers=1, width=2, heads=1, head_dim=2, channels=3, qkv_bias=True)
    shape = VitShape(blocks, image_size=2, classes=5, patch_size=1)  # 4 patches, 5 tokens
    assert shape.first_layer_macs == 4 * 3 * 2
    assert shape.macs_forward(0, 0) == 24 + 2 * 5
    assert shape.macs_forward(1, 0) - shape.macs_forward(0, 0) == 4 * 5 * 2 * 2 + 2 * 5 * 5 * 2
    assert shape.macs_forward(0, 1) - shape.macs_forward(0, 0) == 2 * 5 * 2
    # Embedding 8, class token 2, positions 10, norms and output biases 12, final norm 4, head 15.
    assert shape.parameters(0, 0) == 8 + 2 + 10 + 12 + 4 + 15


def test_tiny_cct_by_hand() -> None:
    blocks = TransformerShape(layers=1, width=2, heads=1, head_dim=2, channels=3, qkv_bias=False)
    shape = CctShape(blocks, image_size=7, classes=5, hidden_filters=(4,))  # 7 -> 4 -> 2 a side
    assert shape.tokens == 4
    assert shape.first_layer_macs == 49 * 9 * 3 * 4
    convolutions = 49 * 9 * 3 * 4 + 16 * 9 * 4 * 2
    assert shape.macs_forward(0, 0) == convolutions + 2 * 4 * 2 + 2 * 5
    assert shape.macs_training(0, 0) == 3 * shape.macs_forward(0, 0) - shape.first_layer_macs


@pytest.mark.parametrize("workload", BY_NAME)
def test_parameters_equal_the_real_models(workload: Workload) -> None:
    model = build_model(workload, seed=0)
    stored = sum(parameter.numel() for parameter in model.parameters())
    assert stored == workload.shape.parameters(*dense_units(workload))


@pytest.mark.parametrize("workload", BY_NAME)
def test_macs_equal_the_executed_products(workload: Workload) -> None:
    forward, training = counted_macs(build_model(workload, seed=0), workload)
    assert forward == workload.shape.macs_forward(*dense_units(workload))
    assert training == workload.shape.macs_training(*dense_units(workload))


@pytest.mark.parametrize("name", ["vit-digits", "cct-digits"])
@pytest.mark.parametrize(
    ("heads", "channels"),
    [
        ([1, 1, 1, 1], [1, 1, 1, 1]),
        ([8, 2, 5, 1], [128, 3, 60, 9]),
        pytest.param([0, 3, 0, 1], [5, 1, 7, 2], id="layers without heads"),
    ],
)
def test_compact_models(name: str, heads: list[int], channels: list[int]) -> None:
    workload = WORKLOADS[name]
    model = build_model(workload, seed=0)
    shrink(model, heads, channels)
    shape, units = workload.shape, (sum(heads), sum(channels))
    assert sum(parameter.numel() for parameter in model.parameters()) == shape.parameters(*units)
    forward, training = counted_macs(model, workload, images=2)
    assert (forward, training) == (shape.macs_forward(*units), shape.macs_training(*units))


def test_costs_depend_on_totals_alone() -> None:
    shape = WORKLOADS["cct-cifar100"].shape
    assert shape.macs_forward(34, 1067) == (
        shape.macs_forward(34, 0) + shape.macs_forward(0, 1067) - shape.macs_forward(0, 0)
    )


def test_shapes_are_values() -> None:
    shape = WORKLOADS["vit-digits"].shape
    assert replace(shape) == shape
    assert hash(replace(shape)) == hash(shape)
