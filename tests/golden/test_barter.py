"""BARTER against golden data made by an independent reading of the specification.

Nothing here states a rule: cases are loaded, the product's functions called, results compared.
"""

import json
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from timm.layers.attention import Attention
from timm.layers.mlp import Mlp
from torch import nn

from methods.compact import clone_in_layer, remove_from_layer
from methods.pool import UnitPool, transfer_scores
from methods.schedule import Window, cooldown_steps, last_collecting_step, proposal_steps
from methods.scores import layer_spans, unit_scores
from methods.selection import ByScore, Candidates, Skipped, Transfer, select_transfer
from methods.units import UnitLayer, find_layers
from tests.golden.conftest import count_case, golden_files


def json_cases(kind: str) -> list[dict[str, Any]]:
    return [case for file in golden_files(kind) for case in json.loads(file.read_text())]


def pack(prune: list[list[float]], growth: list[list[float]]) -> torch.Tensor:
    """Per-layer scores as the product's [2, units] tensor."""
    return torch.tensor([list(chain(*prune)), list(chain(*growth))], dtype=torch.float64)


def assert_scores(
    scores: torch.Tensor, prune: list[list[float]], growth: list[list[float]]
) -> None:
    widths = [len(layer) for layer in prune]
    for row, expected in enumerate((prune, growth)):
        for span, layer in zip(layer_spans(widths), expected, strict=True):
            np.testing.assert_allclose(scores[row, span].numpy(), layer, rtol=1e-12, atol=0)
    assert scores.shape[1] == sum(widths)


def as_json(transfer: Transfer | Skipped) -> dict[str, int] | None:
    return None if isinstance(transfer, Skipped) else vars(transfer)


def test_selection() -> None:
    for case in json_cases("barter_selection"):
        candidates = Candidates(
            prune_scores=[np.array(layer, dtype=np.float64) for layer in case["prune_scores"]],
            growth_scores=[np.array(layer, dtype=np.float64) for layer in case["growth_scores"]],
            in_cooldown=[np.array(layer, dtype=bool) for layer in case["in_cooldown"]],
            initial_widths=case["initial_widths"],
            max_widths=case["max_widths"],
            min_width=case["min_width"],
        )
        transfer = select_transfer(candidates, ByScore())
        assert as_json(transfer) == case["expected"]
        if isinstance(transfer, Transfer):
            scores = pack(case["prune_scores"], case["growth_scores"])
            widths = [len(layer) for layer in case["prune_scores"]]
            after = transfer_scores(scores, widths, transfer)
            assert_scores(after, case["prune_scores_after"], case["growth_scores_after"])
        count_case("barter_selection")


def test_schedule() -> None:
    for case in json_cases("barter_schedule"):
        steps = proposal_steps(case["unit_type"], case["transfers"], case["total_steps"])
        assert list(steps) == case["expected"]
        count_case("barter_schedule")


def test_trajectory() -> None:
    for run in json_cases("barter_trajectory"):
        schedule = (run["unit_type"], run["transfers"], run["total_steps"], Window(*run["window"]))
        proposals = proposal_steps(*schedule)
        assert list(proposals) == run["proposal_steps"]
        assert cooldown_steps(*schedule) == run["cooldown_steps"]
        assert last_collecting_step(proposals) == run["last_collecting_step"]
        pool = UnitPool(
            run["unit_type"],
            run["initial_widths"],
            run["max_widths"],
            cooldown_steps(*schedule),
            run["beta"],
            like=torch.zeros(0, dtype=torch.float64),
        )
        for step in run["steps"]:
            t = step["t"]
            if "prune" in step:
                pool.observe(pack(step["prune"], step["growth"]))
            assert (t in proposals) == ("transfer" in step)
            if t in proposals:
                assert as_json(pool.attempt(t, ByScore())) == step["transfer"]
            assert_scores(pool.scores, step["prune_scores"], step["growth_scores"])
            assert pool.widths == step["widths"]
            assert [layer.tolist() for layer in pool.in_cooldown(t + 1)] == step["in_cooldown"]
        count_case("barter_trajectory")


class Block(nn.Module):
    """One transformer block's attention and FFN, of the sizes that the golden arrays have."""

    def __init__(self, width: int, heads: int, head_dim: int, channels: int) -> None:
        super().__init__()
        self.attn = Attention(width, heads, attn_head_dim=head_dim, qkv_bias=True)
        self.mlp = Mlp(width, channels)


PREFIXES = ("attn", "ffn")


def load_layer(
    data: dict[str, np.ndarray], prefix: str
) -> tuple[UnitLayer, torch.optim.Adam, set[str]]:
    """The layer `before`, in a real module, with its Adam moments in a real optimizer."""
    names = {
        key.split(".", 2)[2]
        for key in data
        if key.startswith(f"{prefix}.before.") and "exp_avg" not in key
    }
    output = data[f"{prefix}.before.{'proj_weight' if prefix == 'attn' else 'fc2_weight'}"]
    heads, head_dim, channels = 1, output.shape[0], 1
    if prefix == "attn":
        heads, head_dim = int(data["attn.heads"]), int(data["attn.head_dim"])
    else:
        channels = output.shape[1]
    block = Block(output.shape[0], heads, head_dim, channels).double()
    head_layers, channel_layers = find_layers(block)
    (layer,) = head_layers if prefix == "attn" else channel_layers
    optimizer = torch.optim.Adam(layer.module.parameters())
    for name in names:
        parameter = layer.module.get_parameter(dotted(name))
        parameter.data = torch.tensor(data[f"{prefix}.before.{name}"])
        optimizer.state[parameter] = {"step": torch.tensor(7.0)} | {
            moment: torch.tensor(data[f"{prefix}.before.{moment}.{name}"])
            for moment in ("exp_avg", "exp_avg_sq")
        }
    return layer, optimizer, names


def dotted(name: str) -> str:
    """`qkv_weight` in the file is `qkv.weight` in the module."""
    return name.replace("_", ".")


def assert_layer(
    data: dict[str, np.ndarray],
    expected: str,
    layer: UnitLayer,
    optimizer: torch.optim.Adam,
    names: set[str],
) -> None:
    for name in names:
        parameter = layer.module.get_parameter(dotted(name))
        np.testing.assert_allclose(
            parameter.detach().numpy(), data[f"{expected}.{name}"], rtol=1e-13, atol=1e-15
        )
        for moment in ("exp_avg", "exp_avg_sq"):
            np.testing.assert_array_equal(
                optimizer.state[parameter][moment].numpy(), data[f"{expected}.{moment}.{name}"]
            )
        assert optimizer.state[parameter]["step"] == 7.0


@pytest.mark.parametrize("prefix", PREFIXES)
def test_tensors(prefix: str) -> None:
    for file in golden_files("barter_tensors"):
        data = dict(np.load(file))
        layer, optimizer, names = load_layer(data, prefix)
        remove_from_layer(layer, optimizer, int(data[f"{prefix}.donor"]))
        assert_layer(data, f"{prefix}.removed", layer, optimizer, names)
        count_case("barter_tensors")

        layer, optimizer, names = load_layer(data, prefix)
        noise = torch.tensor(data[f"{prefix}.eps"])
        clone_in_layer(layer, optimizer, int(data[f"{prefix}.parent"]), noise)
        assert_layer(data, f"{prefix}.cloned", layer, optimizer, names)
        count_case("barter_tensors")


@pytest.mark.parametrize("unit", ["channel", "head"])
def test_scores(unit: str) -> None:
    for file in golden_files("barter_tensors"):
        data = dict(np.load(file))
        activation, gradient = (
            torch.tensor(data[f"score.{unit}.{name}"]).double()
            for name in ("activation", "gradient")
        )
        unit_size = 1
        if unit == "head":  # [samples, heads, tokens, head_dim]
            unit_size = activation.shape[3]
            activation, gradient = (x.transpose(1, 2).flatten(2) for x in (activation, gradient))
        prune, growth = unit_scores(activation, gradient, unit_size)
        np.testing.assert_allclose(prune.numpy(), data[f"score.{unit}.prune"], rtol=1e-12)
        np.testing.assert_allclose(growth.numpy(), data[f"score.{unit}.growth"], rtol=1e-12)
        count_case("barter_scores")
