"""MacCounter: the published totals, phases, repeated passes, and what it refuses to guess."""

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from bench.measure.macs import (
    MacCount,
    MacCounter,
    UnknownOperatorError,
    count_training_macs,
    is_matmul_like,
)

FORWARD, BACKWARD, TRAINING, RECOMPUTED = 189_503_616, 376_647_936, 566_151_552, 7_300_800


def vit() -> VisionTransformer:
    return VisionTransformer(
        img_size=64,
        patch_size=8,
        embed_dim=192,
        depth=9,
        num_heads=12,
        mlp_ratio=2,
        qkv_bias=True,
        num_classes=100,
    )


@pytest.fixture(scope="module")
def model() -> VisionTransformer:
    return vit()


def training_macs(model: nn.Module, batch: int = 1) -> MacCount:
    images = torch.randn(batch, 3, 64, 64)
    return count_training_macs(lambda: model(images).sum())


def test_vit_with_fused_attention_gives_the_published_counts(model):
    count = training_macs(model)
    assert count == MacCount(FORWARD, BACKWARD, RECOMPUTED)
    assert count.training == TRAINING


def test_vit_with_math_attention_gives_the_same_and_repeats_nothing(model):
    with sdpa_kernel(SDPBackend.MATH):
        assert training_macs(model) == MacCount(FORWARD, BACKWARD, 0)


def test_vit_with_explicit_attention_gives_the_same_and_repeats_nothing(monkeypatch):
    model = vit()
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            monkeypatch.setattr(module, "fused_attn", False)
    assert training_macs(model) == MacCount(FORWARD, BACKWARD, 0)


def test_counts_are_linear_in_the_batch(model):
    assert training_macs(model, 3) == MacCount(3 * FORWARD, 3 * BACKWARD, 3 * RECOMPUTED)


def test_autocast_changes_nothing(model):
    with torch.autocast("cpu", torch.bfloat16):
        assert training_macs(model) == MacCount(FORWARD, BACKWARD, RECOMPUTED)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluation_counts_the_forward_pass(model, mode):
    counter = MacCounter()
    with mode(), counter:
        model(torch.randn(1, 3, 64, 64))
    assert counter.count == MacCount(FORWARD)


def test_torch_own_counter_leaves_cpu_attention_out(model):
    with FlopCounterMode(display=False) as flops:
        model(torch.randn(1, 3, 64, 64))
    macs = flops.get_total_flops() // 2
    if macs == FORWARD:
        pytest.skip("this torch counts fused CPU attention")
    assert macs == FORWARD - 2 * RECOMPUTED == 174_902_016


def test_training_macs_leave_ordinary_gradients_behind():
    layer = nn.Linear(3, 5)
    assert count_training_macs(lambda: layer(torch.ones(2, 3)).sum()) == MacCount(30, 30)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, torch.full((5, 3), 2.0))


def test_phases_book_and_nest():
    counter = MacCounter()
    a, b = torch.ones(2, 3), torch.ones(3, 5)
    with counter:
        torch.mm(a, b)
        with counter.phase("backward"):
            torch.mm(a, b)
            with counter.phase("forward"):
                torch.mm(a, b)
            torch.mm(a, b)
        torch.mm(a, b)
    torch.mm(a, b)  # not active: not counted
    assert counter.count == MacCount(90, 60)


def test_a_phase_ends_with_an_exception():
    counter = MacCounter()
    with pytest.raises(KeyError), counter, counter.phase("backward"):
        raise KeyError
    with counter:
        torch.mm(torch.ones(2, 3), torch.ones(3, 5))
    assert counter.count == MacCount(30)


def test_an_unknown_phase_is_refused():
    with pytest.raises(ValueError, match="optimizer"), MacCounter().phase("optimizer"):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_forward_pass_counts_as_recomputed(reentrant):
    # Three layers: torch stops repeating once it has what the last one saved.
    layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 2))
    inputs = torch.randn(3, 4, requires_grad=True)
    plain = count_training_macs(lambda: layers(inputs).sum())
    assert plain == MacCount(3 * (32 + 48 + 12), 6 * (32 + 48 + 12))

    def run() -> Tensor:
        output = checkpoint(layers, inputs, use_reentrant=reentrant)
        assert isinstance(output, Tensor)
        return output.sum()

    repeated = count_training_macs(run)
    assert (repeated.forward, repeated.backward) == (plain.forward, plain.backward)
    assert repeated.recomputed == 3 * (32 + 48 + (12 if reentrant else 0))


class HandWritten(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    def backward(ctx, *grad_outputs):
        left, right = ctx.saved_tensors
        return grad_outputs[0] @ right.t(), left.t() @ grad_outputs[0]


def test_hand_written_gradients_are_backward_not_recomputed():
    left = torch.ones(2, 3, requires_grad=True)
    right = torch.ones(3, 5, requires_grad=True)
    count = count_training_macs(lambda: HandWritten.apply(left, right).sum())
    assert count == MacCount(30, 60, 0)


def counted(run) -> MacCount:
    counter = MacCounter()
    with counter:
        run()
    return counter.count


x = torch.randn(3, 3)

REFUSED = {
    "aten::_cdist_forward": lambda: torch.cdist(x, x),
    "aten::_trilinear": lambda: nn.functional.bilinear(x, x, torch.randn(2, 3, 3)),
    "rnn": lambda: nn.LSTM(3, 3)(torch.randn(2, 1, 3)),
    "aten::linalg_inv_ex": lambda: torch.linalg.inv(torch.eye(3)),
    "aten::_fft_r2c": lambda: torch.fft.fft(x),
    "aten::conv_tbc": lambda: torch.conv_tbc(torch.randn(5, 2, 3), torch.randn(2, 3, 4), x[0, 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unknown_product_is_an_error_that_names_it(name):
    with pytest.raises(UnknownOperatorError, match=name):
        counted(REFUSED[name])


def test_an_unknown_product_in_the_backward_pass_is_an_error_too():
    points = torch.randn(4, 3, requires_grad=True)
    with MacCounter(zero_cost=["aten::_cdist_forward"]) as counter:
        loss = torch.cdist(points, points).sum()
        with (
            counter.phase("backward"),
            pytest.raises(UnknownOperatorError, match="_cdist_backward"),
        ):
            loss.backward()


def test_sparse_operands_are_refused():
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(UnknownOperatorError, match="sparse_coo"):
        counted(lambda: sparse @ x)


def test_higher_order_operators_are_refused():
    flex_attention = pytest.importorskip("torch.nn.attention.flex_attention").flex_attention
    q = torch.randn(1, 1, 16, 16)
    with (
        pytest.warns(match="flex_attention"),
        pytest.raises(UnknownOperatorError, match="flex_attention"),
    ):
        counted(lambda: flex_attention(q, q, q))


@torch.library.custom_op("benchtest::scale", mutates_args=())
def scale(inputs: Tensor) -> Tensor:
    return inputs * 2


def test_an_operator_of_a_foreign_namespace_needs_a_word_for_it():
    with pytest.raises(UnknownOperatorError, match="benchtest::scale"):
        counted(lambda: scale(x))
    with MacCounter(zero_cost=["benchtest::scale"]) as counter:
        scale(x)
    assert counter.count == MacCount()


def test_what_a_training_step_runs_besides_products_is_not_refused():
    layer = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2))
    optimizer = torch.optim.AdamW(layer.parameters())

    def step() -> None:
        images = nn.functional.interpolate(torch.randn(2, 3, 4, 4), size=(8, 8), mode="bilinear")
        loss = nn.functional.cross_entropy(layer(images).flatten(1), torch.zeros(2).long())
        loss.backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
        torch.linalg.vector_norm(next(layer.parameters()).detach().flatten()).item()

    assert counted(step) == MacCount(2 * 64 * 12 * 2)  # forward, and the weight's gradient


PRODUCTS = """
    _foreach_mm int4mm_packed sspaddmm matmul_backward conv_depthwise3d miopen_convolution
    mkldnn_linear _native_multi_head_attention linalg_svd lu_solve _compute_linear_combination
    _transformer_encoder_layer_fwd _cudnn_rnn _thnn_fused_gru_cell _fft_c2r quantized_lstm
"""
OTHERS = """
    gamma lgamma hamming_window cummax addcmul sum mul embedding convert _softmax gelu
    upsample_linear1d upsample_bilinear2d linalg_vector_norm native_layer_norm native_dropout
    _convert_indices_from_coo_to_csr _foreach_addcdiv _fused_adam max_pool2d_with_indices
"""


@pytest.mark.parametrize("operator", PRODUCTS.split())
def test_words_that_may_mean_a_product(operator):
    assert is_matmul_like(operator)


@pytest.mark.parametrize("operator", OTHERS.split())
def test_words_that_do_not(operator):
    assert not is_matmul_like(operator)
