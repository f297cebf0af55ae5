"""The models that are built: structure, initialisation, and nothing left behind."""

import pytest
import torch
from timm.layers.attention import Attention
from timm.layers.drop import DropPath
from timm.layers.mlp import Mlp
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from bench.workloads.build import build_model
from bench.workloads.cct import Cct, CctBlock, build_cct
from bench.workloads.registry import WORKLOADS
from bench.workloads.shapes import CctShape, VitShape
from bench.workloads.vit import build_vit
from methods.budget import TransformerShape

SMALL = ["vit-digits", "cct-digits"]
TINY = TransformerShape(layers=3, width=8, heads=2, head_dim=4, channels=16, qkv_bias=False)


def tiny_cct(drop_path: float = 0.0) -> Cct:
    return build_cct(CctShape(TINY, image_size=8, classes=3), drop_path)


@pytest.mark.parametrize("name", SMALL)
def test_logits_and_blocks(name: str) -> None:
    workload = WORKLOADS[name]
    model = build_model(workload, seed=0)
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert model.training
    assert len(model.blocks) == workload.shape.blocks.layers  # pyright: ignore[reportArgumentType]
    for block in model.blocks:  # pyright: ignore[reportGeneralTypeIssues]
        assert type(block.attn) is Attention
        assert type(block.mlp) is Mlp
        assert block.attn.head_dim == workload.shape.blocks.head_dim


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_alone_decides_the_weights(name: str) -> None:
    workload = WORKLOADS[name]
    torch.manual_seed(1)
    first = build_model(workload, seed=5).state_dict()
    torch.manual_seed(2)
    again = build_model(workload, seed=5).state_dict()
    other = build_model(workload, seed=6).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_the_global_random_state_is_untouched() -> None:
    before = torch.random.get_rng_state()
    build_model(WORKLOADS["cct-digits"], seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_vit_is_timms_own() -> None:
    workload = WORKLOADS["vit-cifar100-finetune"]
    shape = workload.shape
    assert isinstance(shape, VitShape)
    torch.manual_seed(3)
    ours = build_vit(shape, workload.recipe.drop_path)
    torch.manual_seed(3)
    timms = VisionTransformer(
        img_size=64,
        patch_size=8,
        num_classes=100,
        embed_dim=192,
        depth=9,
        num_heads=12,
        mlp_ratio=2,
        qkv_bias=True,
        drop_path_rate=0.1,
    )
    assert type(ours) is VisionTransformer
    assert str(ours) == str(timms)
    expected = timms.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in ours.state_dict().items())


def test_vit_refuses_a_head_dimension_that_timm_would_not_use() -> None:
    blocks = TransformerShape(layers=1, width=8, heads=2, head_dim=2, channels=8, qkv_bias=True)
    with pytest.raises(ValueError, match="head dimension"):
        build_vit(VitShape(blocks, image_size=8, classes=2, patch_size=4), drop_path=0.0)


def test_vit_positions_can_start_wider() -> None:
    shape = WORKLOADS["vit-tiny-imagenet"].shape
    assert isinstance(shape, VitShape)
    positions = build_vit(shape, drop_path=0.0, position_std=0.5).pos_embed
    assert positions is not None
    assert positions.std().item() == pytest.approx(0.5, rel=0.05)


def test_cct_layer_puts_the_second_norm_on_the_residual_stream() -> None:
    shape = CctShape(TINY, image_size=8, classes=3)
    block = CctBlock(shape, drop_path=0.0).double()
    x = torch.randn(2, 16, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    after_attention = block.norm1(x + block.attn(block.pre_norm(x)))
    torch.testing.assert_close(block(x), after_attention + block.mlp(after_attention))


def test_cct_pools_the_sequence_with_learned_weights() -> None:
    pool = tiny_cct().pool
    tokens = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(pool.score.weight)  # equal scores: a plain average
    torch.testing.assert_close(pool(tokens), tokens.mean(dim=1))
    with torch.no_grad():
        pool.score.weight[0] = 1000 * tokens[1, 5]  # one token wins in the second image
    torch.testing.assert_close(pool(tokens)[1], tokens[1, 5])


def test_cct_tokenizer() -> None:
    workload = WORKLOADS["cct-cifar100"]
    model = build_model(workload, seed=0)
    assert isinstance(model, Cct)
    layers = list(model.tokenizer.layers)
    assert [type(layer) for layer in layers] == [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    assert layers[0].bias is None
    tokens = model.tokenizer.forward(torch.zeros(1, 3, 32, 32))
    assert tokens.shape == (1, 256, 256)


def test_cct_tokens_are_contiguous_and_the_same_as_in_the_usual_layout() -> None:
    model = tiny_cct().double()
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    tokens = model.tokenizer(images)
    usual = model.tokenizer.layers(images).flatten(2).transpose(1, 2)
    assert tokens.is_contiguous()
    assert not usual.is_contiguous()
    torch.testing.assert_close(tokens, usual, rtol=1e-14, atol=1e-14)
    seen: list[torch.Tensor] = []
    for name in ("0.pre_norm", "2.norm1"):
        module = model.blocks.get_submodule(name)
        module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(images)
    assert [x.is_contiguous() for x in seen] == [True, True], "the residual stream"
    (weight,) = model.tokenizer.parameters()
    (here,) = torch.autograd.grad(tokens.square().sum(), weight)
    (there,) = torch.autograd.grad(usual.square().sum(), weight)
    torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)


def test_cct_biases() -> None:
    names = dict(tiny_cct().blocks[0].named_parameters())
    assert "attn.qkv.bias" not in names
    assert {"attn.proj.bias", "mlp.fc1.bias", "mlp.fc2.bias"} <= set(names)


def test_cct_initialisation() -> None:
    model = build_model(WORKLOADS["cct-cifar100"], seed=0)
    assert isinstance(model, Cct)
    expected = {
        "pos_embed": 0.2,
        "blocks.0.attn.qkv.weight": 0.02,
        "head.weight": 0.02,
        "tokenizer.layers.0.weight": (2 / 27) ** 0.5,  # kaiming: fan-in 3 * 3 * 3
    }
    for name, std in expected.items():
        assert model.get_parameter(name).std().item() == pytest.approx(std, rel=0.03), name
    assert not model.head.bias.any()


def test_stochastic_depth_rises_linearly_from_zero() -> None:
    rates = [
        block.drop_path.drop_prob if isinstance(block.drop_path, DropPath) else 0.0  # pyright: ignore[reportAttributeAccessIssue]
        for block in tiny_cct(drop_path=0.2).blocks
    ]
    assert rates == pytest.approx([0.0, 0.1, 0.2])


def test_no_dropout_anywhere() -> None:
    for workload in WORKLOADS.values():
        model = build_model(workload, seed=0)
        assert not any(m.p for m in model.modules() if isinstance(m, nn.Dropout))
