"""The ViT, as timm builds and initialises it (specification, section 6)."""

from timm.layers.weight_init import trunc_normal_
from timm.models.vision_transformer import VisionTransformer

from bench.workloads.shapes import IMAGE_CHANNELS, VitShape


def build_vit(
    shape: VitShape, drop_path: float, position_std: float | None = None
) -> VisionTransformer:
    """A dense ViT in float32 on the CPU, initialised from the global random state.

    Maps images [B, 3, H, W] to logits [B, classes]. No dropout anywhere; stochastic depth rises
    linearly from 0 to `drop_path` over the layers. `position_std` replaces the deviation (0.02)
    with which timm draws the positions.
    """
    blocks = shape.blocks
    if blocks.heads * blocks.head_dim != blocks.width:
        raise ValueError(f"timm's ViT derives the head dimension from the width; {blocks} does not")
    model = VisionTransformer(
        img_size=shape.image_size,
        patch_size=shape.patch_size,
        in_chans=IMAGE_CHANNELS,
        num_classes=shape.classes,
        embed_dim=blocks.width,
        depth=blocks.layers,
        num_heads=blocks.heads,
        mlp_ratio=blocks.channels / blocks.width,
        qkv_bias=blocks.qkv_bias,
        drop_path_rate=drop_path,
    )
    if position_std is not None:
        assert model.pos_embed is not None
        trunc_normal_(model.pos_embed, std=position_std)
    return model
