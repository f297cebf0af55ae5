"""Bytes that operators move and the time that a card needs at least, counted by hand."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from bench.measure.macs import MacCounter
from bench.predict.cards import Card
from bench.predict.roofline import OperatorCost, OperatorCosts

CARD = Card("test", fp32_tflops=2, bandwidth_gb_per_s=100, memory_gb=1, source="made up")
TENSOR_CORES = Card("tensor", 2, 100, 1, "made up", tf32_tflops=8, bf16_tflops=16)


def noted(run: Callable[[], object], tf32: bool = False) -> OperatorCosts:
    with OperatorCosts(tf32) as costs:
        run()
    return costs


def moved(run: Callable[[], object]) -> int:
    return noted(run).moved_bytes


def test_a_product_of_matrices() -> None:
    left, right = torch.ones(8, 16), torch.ones(16, 4)
    costs = noted(lambda: left @ right)
    assert costs.costs == [
        OperatorCost("aten::mm", 8 * 16 * 4, 4 * (8 * 16 + 16 * 4 + 8 * 4), "fp32")
    ]


A, B, MASK = torch.ones(100), torch.ones(100), torch.ones(100, dtype=torch.bool)
LIKE = torch.empty(50, dtype=torch.float64)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: A + B, 3 * 400),
        (lambda: A + A, 2 * 400),  # read once
        (lambda: A * MASK, 2 * 400 + 100),
        (lambda: A.add_(B), 3 * 400),  # reads both, writes one
        (lambda: A.copy_(B), 2 * 400),
        (lambda: A.zero_(), 400),
        (lambda: torch.zeros_like(A), 400),
        (lambda: LIKE.new_zeros(7), 7 * 8),
        (lambda: A.view(10, 10).t()[1:].detach(), 0),
        (lambda: torch.empty_like(A), 0),
        (lambda: A[:10].clone(), 2 * 40),
        (lambda: A[:1].expand(100) + B, 4 + 2 * 400),  # one number, read once
        (lambda: A.sum(), 400 + 4),
        (lambda: A.to(torch.float16), 400 + 200),
        (lambda: torch._foreach_mul_([A, B], 2.0), 4 * 400),  # pyright: ignore
        (lambda: torch.equal(A, B), 0),  # makes no tensor: a question, of no step here
    ],
)
def test_bytes_moved(run: Callable[[], object], expected: int) -> None:
    assert moved(run) == expected


def test_an_operator_takes_the_larger_of_arithmetic_and_traffic() -> None:
    # 2 FLOPs a MAC at 2 TFLOP/s, against bytes at 100 GB/s.
    square, vector = torch.ones(512, 512), torch.ones(512, 1)
    compute = noted(lambda: square @ square)
    assert compute.milliseconds(CARD) == pytest.approx(2 * 512**3 / 2e12 * 1e3)
    traffic = noted(lambda: square @ vector)
    assert traffic.milliseconds(CARD) == pytest.approx(4 * (512 * 512 + 2 * 512) / 100e9 * 1e3)
    both = noted(lambda: (square @ square, square @ vector))
    assert both.milliseconds(CARD) == pytest.approx(
        compute.milliseconds(CARD) + traffic.milliseconds(CARD)
    )


def test_products_run_at_the_peak_of_their_precision() -> None:
    single = torch.ones(4096, 4096, device="meta")
    half = single.to(torch.bfloat16)
    flops = 2 * 4096**3

    def milliseconds(matrix: Tensor, tf32: bool, card: Card = TENSOR_CORES) -> float:
        return noted(lambda: matrix @ matrix, tf32).milliseconds(card)

    assert milliseconds(single, tf32=False) == pytest.approx(flops / 2e12 * 1e3)
    assert milliseconds(single, tf32=True) == pytest.approx(flops / 8e12 * 1e3)
    assert milliseconds(half, tf32=True) == pytest.approx(flops / 16e12 * 1e3)
    assert milliseconds(half.half(), tf32=False) == pytest.approx(flops / 16e12 * 1e3)
    # What a card has no units for runs in float32.
    assert milliseconds(single, tf32=True, card=CARD) == pytest.approx(flops / 2e12 * 1e3)
    assert milliseconds(half, tf32=False, card=CARD) == pytest.approx(flops / 2e12 * 1e3)


def test_products_are_those_that_the_mac_counter_counts() -> None:
    query = torch.randn(2, 3, 5, 8, requires_grad=True)
    weight = torch.randn(8, 8, requires_grad=True)

    def step() -> None:
        out = scaled_dot_product_attention(query, query, query)
        layer_norm(out @ weight, (8,)).sum().backward()

    with MacCounter() as counter:
        costs = noted(step)
    count = counter.count
    assert sum(cost.macs for cost in costs.costs) == count.training + count.recomputed > 0


def test_the_kernel_of_attention_is_the_one_that_ran() -> None:
    query = torch.randn(1, 1, 4, 8)
    assert noted(lambda: query @ query.mT).attention_kernel == "math"
    attention = noted(lambda: scaled_dot_product_attention(query, query, query))
    assert attention.attention_kernel == "flash"
