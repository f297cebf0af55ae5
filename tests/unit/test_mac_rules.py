"""MAC rules against brute force: a product of ones adds up to its own multiply-accumulates."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv_transpose2d, pad, scaled_dot_product_attention

from bench.measure.mac_rules import RULES
from bench.measure.macs import MacCount, MacCounter, UnknownOperatorError, count_training_macs

sizes = st.integers(0, 4)
widths = st.integers(1, 4)
few = settings(max_examples=25, deadline=None)


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.float64)


def forward_macs(run) -> tuple[int, int]:
    """(counted, what a product of ones adds up to)."""
    counter = MacCounter()
    with counter:
        result = run()
    assert counter.count == MacCount(forward=counter.count.forward)
    return counter.count.forward, int(result.sum())


@few
@given(b=sizes, m=sizes, k=sizes, n=sizes)
def test_matrix_products(b, m, k, n):
    cases = {
        "mm": lambda: torch.mm(ones(m, k), ones(k, n)),
        "out": lambda: torch.mm(ones(m, k), ones(k, n), out=ones(m, n)),
        "addmm": lambda: torch.addmm(0 * ones(n), ones(m, k), ones(k, n)),
        "addmm_": lambda: (0 * ones(m, n)).addmm_(ones(m, k), ones(k, n)),
        "bmm": lambda: torch.bmm(ones(b, m, k), ones(b, k, n)),
        "baddbmm": lambda: torch.baddbmm(0 * ones(b, m, n), ones(b, m, k), ones(b, k, n)),
        "baddbmm_": lambda: (0 * ones(b, m, n)).baddbmm_(ones(b, m, k), ones(b, k, n)),
        "addbmm": lambda: torch.addbmm(0 * ones(m, n), ones(b, m, k), ones(b, k, n)),
        "mv": lambda: torch.mv(ones(m, k), ones(k)),
        "addmv": lambda: torch.addmv(0 * ones(m), ones(m, k), ones(k)),
        "dot": lambda: torch.dot(ones(k), ones(k)),
        "vdot": lambda: torch.vdot(ones(k), ones(k)),
        "addr": lambda: torch.addr(0 * ones(m, n), ones(m), ones(n)),
        "matmul": lambda: torch.matmul(ones(b, 2, m, k), ones(2, k, n)),
        "linear": lambda: torch.nn.functional.linear(ones(b, m, k), ones(n, k)),
    }
    for name, run in cases.items():
        counted, expected = forward_macs(run)
        assert counted == expected, name


def test_einsum_counts_when_it_runs_as_a_matrix_product():
    counted, expected = forward_macs(
        lambda: torch.einsum("bmk,bkn->bmn", ones(2, 3, 4), ones(2, 4, 5))
    )
    assert counted == expected == 2 * 3 * 4 * 5


convolutions = st.fixed_dictionaries(
    {
        "batch": st.integers(0, 3),
        "groups": widths,
        "in_per_group": widths,
        "out_per_group": widths,
        "size": st.tuples(st.integers(5, 8), st.integers(5, 8)),
        "kernel": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "stride": st.integers(1, 3),
        "padding": st.integers(0, 2),
        "dilation": st.integers(1, 2),
    }
)


@few
@given(case=convolutions)
def test_convolution_and_both_gradients(case):
    g = case["groups"]
    images = ones(case["batch"], g * case["in_per_group"], *case["size"]).requires_grad_()
    weight = ones(g * case["out_per_group"], case["in_per_group"], *case["kernel"]).requires_grad_()
    stride, dilation = case["stride"], case["dilation"]
    got = count_training_macs(
        lambda: conv2d(images, weight, None, stride, case["padding"], dilation, g).sum()
    )
    # Padding counts: the reference pads with ones beforehand.
    padded = pad(images.detach(), [case["padding"]] * 4, value=1.0).requires_grad_()
    output = conv2d(padded, weight.detach().requires_grad_(), None, stride, 0, dilation, g)
    products = int(output.sum())
    by_input = torch.autograd.grad(output.sum(), padded, retain_graph=True)[0].sum()
    assert int(by_input) == products, "the reference itself"
    assert got == MacCount(forward=products, backward=2 * products)


@few
@given(case=convolutions, output_padding=st.integers(0, 1))
def test_transposed_convolution_and_both_gradients(case, output_padding):
    g = case["groups"]
    images = ones(case["batch"], g * case["in_per_group"], *case["size"]).requires_grad_()
    weight = ones(g * case["in_per_group"], case["out_per_group"], *case["kernel"]).requires_grad_()
    stride = case["stride"]
    output_padding = min(output_padding, stride - 1)
    got = count_training_macs(
        lambda: conv_transpose2d(images, weight, None, stride, 0, output_padding, g).sum()
    )
    products = int(conv_transpose2d(images, weight, None, stride, 0, 0, g).sum())
    assert got == MacCount(forward=products, backward=2 * products)


def test_a_convolution_by_hand():
    # 2 images, 3 output channels of 5 places each, kernel of 4 over 2 of 6 channels: groups 3.
    got, _ = forward_macs(lambda: conv1d(ones(2, 6, 11), ones(3, 2, 3), stride=2, groups=3))
    assert got == 2 * 3 * 5 * 2 * 3


@pytest.mark.parametrize(("input_needed", "weight_needed"), [(0, 1), (1, 0), (1, 1)])
def test_a_gradient_that_nobody_needs_is_not_counted(input_needed, weight_needed):
    images = ones(1, 2, 4, 4).requires_grad_(bool(input_needed))
    weight = ones(3, 2, 2, 2).requires_grad_(bool(weight_needed))
    got = count_training_macs(lambda: conv2d(images, weight).sum())
    assert got == MacCount(216, 216 * (input_needed + weight_needed))


def test_linear_rules_of_devices_that_dispatch_linear_itself():
    shape = {"input": ones(5, 7, 3), "self": ones(5, 7, 3), "weight": ones(4, 3)}
    assert RULES["aten::linear"](shape, None) == (5 * 7 * 3 * 4, 0)
    backward = RULES["aten::linear_backward"]
    assert backward(shape | {"output_mask": [True, True, True]}, None) == (2 * 5 * 7 * 3 * 4, 0)
    assert backward(shape | {"output_mask": [False, True, False]}, None) == (5 * 7 * 3 * 4, 0)


# Attention: batch, query heads, query tokens, key tokens, width, value width. All differ.
B, H, Q, K, D, V = 2, 3, 5, 7, 16, 24
PAIRS = B * H * Q * K
FORWARD = PAIRS * (D + V)
BACKWARD = PAIRS * (2 * D + 2 * V)
SCORES = PAIRS * D


def operands(tokens_first: bool = False) -> dict[str, Tensor]:
    def shape(tokens: int, width: int) -> tuple[int, ...]:
        return (B, tokens, H, width) if tokens_first else (B, H, tokens, width)

    return {
        "query": torch.empty(shape(Q, D), device="meta"),
        "key": torch.empty(shape(K, D), device="meta"),
        "value": torch.empty(shape(K, V), device="meta"),
    }


SDPA = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
SDPA = (*SDPA, "fused_attention_overrideable")
FORWARDS = [(f"_scaled_dot_product_{name}", False) for name in SDPA] + [
    ("_scaled_dot_product_attention_math_for_mps", False),
    ("_flash_attention_forward", True),
    ("_flash_attention_forward_no_dropout_inplace", True),
    ("_efficient_attention_forward", True),
    ("_cudnn_attention_forward", False),
]
BACKWARDS = [(f"_scaled_dot_product_{name}_backward", False) for name in SDPA] + [
    ("_flash_attention_backward", True),
    ("_efficient_attention_backward", True),
    ("_cudnn_attention_backward", False),
]


@pytest.mark.parametrize(("name", "tokens_first"), FORWARDS)
def test_attention_forward_is_two_products(name, tokens_first):
    assert RULES[f"aten::{name}"](operands(tokens_first), None) == (FORWARD, 0)


@pytest.mark.parametrize(("name", "tokens_first"), BACKWARDS)
def test_attention_backward_is_four_products_and_one_repeated(name, tokens_first):
    assert RULES[f"aten::{name}"](operands(tokens_first), None) == (BACKWARD, SCORES)


@pytest.mark.parametrize(("name", "_"), FORWARDS + BACKWARDS)
def test_attention_rules_read_names_that_the_schemas_have(name, _):
    if not hasattr(torch.ops.aten, name):
        pytest.skip(f"this torch has no {name}")
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        names = {argument.name for argument in getattr(packet, overload)._schema.arguments}
        assert {"query", "key", "value"} <= names
        assert ("grad_input_mask" in names) == (name in MASKED)


MASKED = (
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward",
)


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ((True, True, True, True), (BACKWARD, SCORES)),
        ((True, False, False, False), (PAIRS * (V + D), SCORES)),
        ((False, False, True, False), (PAIRS * V, SCORES)),
        ((False, False, False, True), (PAIRS * V, SCORES)),
        ((False, False, False, False), (0, 0)),
    ],
)
def test_attention_backward_counts_only_gradients_asked_for(name, mask, expected):
    arguments = operands() | {"grad_input_mask": mask}
    assert RULES[f"aten::{name}"](arguments, None) == expected


@pytest.mark.parametrize(
    ("name", "offsets", "repeated"),
    [
        ("_flash_attention_forward", ("cum_seq_q", "cum_seq_k"), False),
        ("_efficient_attention_forward", ("cu_seqlens_q", "cu_seqlens_k"), False),
        ("_flash_attention_backward", ("cum_seq_q", "cum_seq_k"), True),
        ("_efficient_attention_backward", ("cu_seqlens_q", "cu_seqlens_k"), True),
    ],
)
def test_packed_sequences_count_their_own_lengths(name, offsets, repeated):
    packed = {
        "query": torch.empty(5, H, D),
        "key": torch.empty(9, H, D),
        "value": torch.empty(9, H, V),
        offsets[0]: torch.tensor([0, 2, 5]),
        offsets[1]: torch.tensor([0, 6, 9]),
    }
    pairs = H * (2 * 6 + 3 * 3)
    expected = (pairs * 2 * (D + V), pairs * D) if repeated else (pairs * (D + V), 0)
    assert RULES[f"aten::{name}"](packed, None) == expected
    unknown = packed | {offsets[0]: torch.empty(3, device="meta")}
    with pytest.raises(UnknownOperatorError, match="lengths"):
        RULES[f"aten::{name}"](unknown, None)


def test_partly_used_keys_are_refused():
    arguments = operands(tokens_first=True) | {"seqused_k": torch.tensor([3, 4])}
    with pytest.raises(UnknownOperatorError, match="seqused_k"):
        RULES["aten::_flash_attention_forward"](arguments, None)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("_scaled_dot_product_flash_attention", ()),
        ("_scaled_dot_product_efficient_attention", (None, True)),
        ("_scaled_dot_product_cudnn_attention", (None, True)),
        ("_scaled_dot_product_fused_attention_overrideable", ()),
    ],
)
def test_cuda_attention_operators_dispatched_on_meta_tensors(name, extra):
    query, key = (torch.empty(B, H, n, D, device="meta", dtype=torch.half) for n in (Q, K))
    counter = MacCounter()
    try:
        with counter:
            getattr(torch.ops.aten, name)(query, key, key, *extra)
    except NotImplementedError:
        pytest.skip(f"{name} has no meta kernel in this torch")
    assert counter.count == MacCount(forward=PAIRS * 2 * D)


@few
@given(batch=widths, heads=widths, queries=widths, keys=widths, width=st.sampled_from([8, 16, 24]))
def test_fused_and_explicit_attention_need_the_same(batch, heads, queries, keys, width):
    shapes = [(batch, heads, n, width) for n in (queries, keys, keys)]
    q, k, v = (torch.randn(shape).requires_grad_() for shape in shapes)
    fused = count_training_macs(lambda: scaled_dot_product_attention(q, k, v).sum())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        explicit = count_training_macs(lambda: scaled_dot_product_attention(q, k, v).sum())
    product = batch * heads * queries * keys * width
    assert explicit == MacCount(2 * product, 4 * product, 0)
    assert fused == MacCount(2 * product, 4 * product, product)


def test_queries_that_share_keys_count_per_query_head():
    query, key = torch.empty(2, 6, 5, 8, device="meta"), torch.empty(2, 3, 7, 8, device="meta")
    arguments = {"query": query, "key": key, "value": key}
    rule = RULES["aten::_scaled_dot_product_flash_attention"]
    assert rule(arguments, None) == (2 * 6 * 5 * 7 * 16, 0)
