"""S2ViTE against vectors that its published code produced; no rule is stated here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from timm.layers.attention import Attention
from timm.layers.mlp import Mlp
from torch import Tensor, nn
from torch.optim import AdamW

from baselines.s2vite import S2vite
from baselines.s2vite_config import S2viteConfig
from baselines.s2vite_rules import (
    exchange_channels,
    exchange_count,
    exchange_heads,
    head_token_sums,
)
from methods.base import MethodContext
from methods.budget import TransformerShape
from methods.schedule import CHANNEL, HEAD
from methods.scores import unit_sums
from methods.unit_masks import unit_l1
from tests.golden.conftest import count_case, golden_files

WEIGHTS = {"qkv_weight": "attn.qkv.weight", "fc1_weight": "mlp.fc1.weight"} | {
    "fc2_weight": "mlp.fc2.weight"
}
GRADIENTS = {"fc1_grad": "mlp.fc1.weight", "fc2_grad": "mlp.fc2.weight"}


class Block(nn.Module):
    """One transformer block's attention and FFN, of the sizes that the golden arrays have."""

    def __init__(self, width: int, heads: int, channels: int, qkv_bias: bool) -> None:
        super().__init__()
        self.attn = Attention(width, heads, qkv_bias=qkv_bias)
        self.mlp = Mlp(width, channels)


class Blocks(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        sizes = (shape.width, shape.heads, shape.channels, shape.qkv_bias)
        self.blocks = nn.ModuleList(Block(*sizes) for _ in range(shape.layers))


@dataclass(frozen=True)
class Update:
    """One recorded update of one file."""

    data: dict[str, np.ndarray]
    index: int

    def tensor(self, block: int, name: str) -> Tensor:
        return torch.tensor(self.data[f"u{self.index}_b{block}_{name}"])

    def number(self, block: int, name: str) -> float:
        return self.data[f"u{self.index}_b{block}_{name}"].item()

    @property
    def step(self) -> int:
        return int(self.data[f"u{self.index}_step"])

    @property
    def depth(self) -> int:
        return int(self.data["depth"])

    @property
    def has_head_outputs(self) -> bool:
        return not self.data["synthetic_mlp_grad"]

    @property
    def config(self) -> S2viteConfig:
        return S2viteConfig(
            update_frequency=int(self.data["update_frequency"]),
            t_end=float(self.data["t_end"]),
            initial_rate=float(self.data["death_rate_initial"]),
            rate_floor=float(self.data["eta_min"]),
        )


def updates() -> Iterator[Update]:
    for file in golden_files("s2vite"):
        data = dict(np.load(file))
        for index in range(int(data["n_updates"])):
            yield Update(data, index)


def attached(update: Update) -> tuple[nn.Module, S2vite]:
    """The product's method on full-size blocks, in the state before the update."""
    data = update.data
    names = ("dim", "n_heads", "head_dim", "mlp_hidden")
    width, heads, head_dim, channels = (int(data[name]) for name in names)
    bias, depth = bool(data["qkv_bias"]), update.depth
    shape = TransformerShape(depth, width, heads, head_dim, channels, bias)
    model, method = Blocks(shape), S2vite(update.config)
    context = MethodContext(shape, float(data["density"]), int(data["T"]), seed=0)
    method.attach(model, AdamW(model.parameters()), context)
    for unit_type, name in ((HEAD, "init_heads"), (CHANNEL, "init_channels")):
        official = [int(data[f"b{block}_{name}"].sum()) for block in range(depth)]
        assert method._masks[unit_type].widths == official
    load(update, model, method)
    return model, method


def load(update: Update, model: nn.Module, method: S2vite) -> None:
    masks = {
        unit_type: torch.stack([update.tensor(b, f"in_{name}") for b in range(update.depth)])
        for unit_type, name in ((HEAD, "heads"), (CHANNEL, "channels"))
    }
    method.load_state_dict({"masks": masks, "steps_done": update.step - 1})
    for block in range(update.depth):
        for name, parameter in WEIGHTS.items():
            target = model.get_parameter(f"blocks.{block}.{parameter}")
            target.data = update.tensor(block, f"in_{name}")
        for name, parameter in GRADIENTS.items():
            target = model.get_parameter(f"blocks.{block}.{parameter}")
            target.grad = update.tensor(block, f"in_{name}")


def assert_masks_and_weights(update: Update, model: nn.Module, method: S2vite) -> None:
    for block in range(update.depth):
        for unit_type, name in ((HEAD, "heads"), (CHANNEL, "channels")):
            mask = method._masks[unit_type]
            assert torch.equal(mask.active[block], update.tensor(block, f"out_{name}"))
            assert mask.widths[block] == update.tensor(block, f"out_{name}").sum()
        for name, parameter in WEIGHTS.items():
            now = model.get_parameter(f"blocks.{block}.{parameter}")
            assert torch.equal(now, update.tensor(block, f"out_{name}"))


def test_rates_and_counts() -> None:
    for update in updates():
        assert update.step in update.config.update_steps(int(update.data["T"]))
        rate = update.config.death_rate(update.step, int(update.data["T"]))
        for block in range(update.depth):
            for kind, name in (("attn", "heads"), ("mlp", "channels")):
                assert rate == pytest.approx(update.number(block, f"death_rate_{kind}"), rel=1e-12)
                width = int(update.tensor(block, f"in_{name}").sum())
                assert exchange_count(rate, width) == update.number(block, f"n_{name}_swapped")
                count_case(f"s2vite_counts_{name}")


def test_head_scores() -> None:
    for update in updates():
        for block in range(update.depth if update.has_head_outputs else 0):
            outputs, gradients = (update.tensor(block, f"attn_{n}") for n in ("out", "out_grad"))
            features = head_token_sums(outputs.flatten(2), gradients.flatten(2))
            sums = unit_sums(*features, unit_size=outputs.shape[3], mean=False)
            for total, name in zip(sums, ("head_prune_score", "head_grow_score"), strict=True):
                official = update.tensor(block, name)
                torch.testing.assert_close(total / len(outputs), official, rtol=2e-5, atol=1e-9)
                count_case("s2vite_head_scores")


def test_exchanged_units() -> None:
    for update in updates():
        _, method = attached(update)
        rate = update.config.death_rate(update.step, int(update.data["T"]))
        for block in range(update.depth):
            layer = method.channel_layers[block]
            channel_scores = unit_l1(layer, lambda p: p), unit_l1(layer, gradient)
            head_scores = (
                update.tensor(block, "head_prune_score"),
                update.tensor(block, "head_grow_score"),
            )
            for rule, (drop, grow), name in (
                (exchange_heads, head_scores, "heads"),
                (exchange_channels, channel_scores, "channels"),
            ):
                before, after = (update.tensor(block, f"{n}_{name}") for n in ("in", "out"))
                width = int(before.sum())
                new = rule(drop, grow, before, width, exchange_count(rate, width))
                assert torch.equal(new, after)
                count_case(f"s2vite_{name}")


def gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def from_outputs(update: Update, method: S2vite) -> None:
    """Let the method see recorded head outputs and gradients as backward would show them."""
    for block in range(update.depth):
        outputs, gradients = (update.tensor(block, f"attn_{n}") for n in ("out", "out_grad"))
        method._scores.collector.add(block, [outputs.flatten(2)], gradients.flatten(2))
    method.after_backward(update.step)


def from_scores(update: Update, method: S2vite) -> None:
    """Where no head outputs are recorded: their scores."""
    method.after_backward(update.step)
    rows = [
        torch.stack([update.tensor(block, f"head_{name}_score") for block in range(update.depth)])
        for name in ("prune", "grow")
    ]
    method._scores.heads = torch.stack(rows)


def test_whole_updates() -> None:
    for update in updates():
        model, method = attached(update)
        show: Callable[[Update, S2vite], None] = (
            from_outputs if update.has_head_outputs else from_scores
        )
        show(update, method)
        events = method.update_topology(update.step).events
        assert all(event.executed for event in events)
        method.after_step(update.step)
        assert_masks_and_weights(update, model, method)
        count_case("s2vite_updates")
