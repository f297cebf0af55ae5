"""The plan gives every published figure (specification, sections 5 and 6)."""

import io
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rich.console import Console

from bench.errors import UsageError
from bench.execution import Execution
from bench.plan import COLUMNS, plan_rows, study_rows
from bench.plan_tables import show_plan
from bench.study_file import study_spec
from bench.workloads.registry import WORKLOADS, get_workload


@dataclass(frozen=True)
class Method:
    name: str
    sparse: bool = True
    transfers: bool = False
    masked: bool = False


DENSE = Method("dense", sparse=False)
STATIC = Method("static")
BARTER = Method("barter", transfers=True)
BF16 = Execution(autocast="bf16", compile=True)
DENSITIES = (0.1, 0.3, 0.5, 0.7)


def rows(name: str, *methods: Method, **overrides: Any) -> list[dict[str, Any]]:
    return plan_rows([get_workload(name)], methods, DENSITIES, **overrides)


def column(table: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table]


def test_rows_have_exactly_the_published_keys() -> None:
    table = plan_rows(list(WORKLOADS.values()), [DENSE, STATIC, BARTER], DENSITIES)
    assert all(tuple(row) == COLUMNS for row in table)
    assert len(table) == len(WORKLOADS) * (1 + 4 + 4)
    assert json.loads(json.dumps(table)) == table


def test_every_row_says_how_it_would_be_executed() -> None:
    (usual,), (other,) = rows("vit-digits", DENSE), rows("vit-digits", DENSE, execution=BF16)
    assert (usual["execution"], usual["tf32"], usual["threads"]) == ("", False, 1)
    assert other["execution"] == "autocast bf16, compile on"
    assert (other["autocast"], other["compile"]) == ("bf16", True)
    assert other["parameters"] == usual["parameters"]


def test_grids_that_are_executed_differently_have_rows_of_their_own() -> None:
    spec = study_spec(None, {"methods": "dense"}, to_run=False)
    (grid,) = spec.grids
    both = replace(spec, grids=(grid, replace(grid, execution=BF16), grid))
    assert [row["autocast"] for row in study_rows(both)] == ["none", "bf16"]
    text = io.StringIO()
    show_plan(study_rows(both), Console(file=text, width=120))
    assert "vit-digits: 228 steps" in text.getvalue()
    assert "vit-digits (autocast bf16, compile on): 228 steps" in text.getvalue()


def test_masked_methods_cost_what_dense_costs() -> None:
    (dense,) = rows("cct-digits", DENSE)
    for row in rows("cct-digits", Method("rigl", masked=True)):
        assert row | {"method": "dense", "density": 1.0} == dense


def test_dense_stands_once_at_density_one() -> None:
    (row,) = rows("vit-cifar100-finetune", DENSE)
    assert row["density"] == 1.0
    assert (row["heads"], row["channels"]) == (108, 3456)
    assert row["heads_per_layer"] == [12] * 9
    assert row["channels_per_layer"] == [384] * 9
    assert row["head_transfers"] is row["channel_transfers"] is None
    assert row["flops_saving"] == 0
    assert row["matched_epochs"] == 100


@pytest.mark.parametrize(
    ("name", "budgets", "transfers"),
    [
        (
            "cct-cifar100",
            [(11, 371), (34, 1067), (56, 1795), (78, 2523)],
            [(1, 21), (2, 60), (3, 101), (5, 142)],
        ),
        (
            "vit-tiny-imagenet",
            [(11, 359), (33, 1033), (54, 1739), (76, 2413)],
            [(1, 20), (2, 58), (3, 98), (4, 136)],
        ),
        (
            "vit-cifar100-finetune",
            [(11, 359), (33, 1033), (54, 1739), (76, 2413)],
            [(1, 20), (2, 58), (3, 98), (4, 136)],
        ),
    ],
)
def test_published_budgets_and_transfers(
    name: str, budgets: list[tuple[int, int]], transfers: list[tuple[int, int]]
) -> None:
    barter, static = rows(name, BARTER), rows(name, STATIC)
    assert column(barter, "heads", "channels") == budgets
    assert column(static, "heads", "channels") == budgets
    assert column(barter, "head_transfers", "channel_transfers") == transfers
    assert column(static, "head_transfers", "channel_transfers") == [(None, None)] * 4


def test_per_layer_counts_sum_to_the_budget_and_are_equal() -> None:
    for name in WORKLOADS:
        for row in rows(name, BARTER):
            for unit in ("heads", "channels"):
                widths = row[f"{unit}_per_layer"]
                assert sum(widths) == row[unit]
                assert max(widths) - min(widths) <= 1


def test_published_compute_of_the_vit() -> None:
    (dense,) = rows("vit-cifar100-finetune", DENSE)
    assert dense["macs_forward_per_image"] == 189_503_616
    assert dense["macs_train_per_image"] == 566_151_552
    assert dense["flops_train_total"] == 2 * 566_151_552 * 105_400 * 128
    assert dense["flops_train_total"] / 1e15 == pytest.approx(15.276, abs=5e-4)

    tenth, three_tenths, *_ = rows("vit-cifar100-finetune", BARTER)
    assert tenth["matched_epochs"] == pytest.approx(906.17, abs=5e-3)
    assert three_tenths["matched_epochs"] == pytest.approx(324.28, abs=5e-3)
    assert 100 * tenth["flops_saving"] == pytest.approx(89.0, abs=0.05)
    assert 100 * three_tenths["flops_saving"] == pytest.approx(69.2, abs=0.05)


@pytest.mark.parametrize("name", ["vit-tiny-imagenet", "vit-cifar100-finetune"])
def test_published_schedule_of_the_vit(name: str) -> None:
    assert column(rows(name, DENSE), "steps_per_epoch", "total_steps") == [(1054, 105_400)]


def test_a_shorter_schedule_or_another_batch() -> None:
    (row,) = rows("vit-cifar100-finetune", DENSE, total_steps=2108, batch_size=64)
    assert (row["steps_per_epoch"], row["total_steps"]) == (2109, 2108)
    assert row["flops_train_total"] == 2 * 566_151_552 * 2108 * 64
    assert row["matched_epochs"] == 2108 / 2109

    (row,) = rows("vit-cifar100-finetune", DENSE, batch_size=256)
    assert (row["steps_per_epoch"], row["total_steps"]) == (527, 52_700)


def test_transfer_multiplier() -> None:
    for name, expected in (("vit-digits", (2, 35)), ("cct-digits", (2, 34))):
        row = rows(name, BARTER)[1]
        assert (row["head_transfers"], row["channel_transfers"]) == expected
    doubled = rows("cct-cifar100", BARTER, transfer_multiplier=2)
    assert column(doubled, "head_transfers", "channel_transfers")[1] == (4, 120)


def test_full_density_leaves_nothing_to_transfer() -> None:
    (row,) = plan_rows([get_workload("cct-cifar100")], [BARTER], [1.0])
    assert (row["heads"], row["channels"]) == (112, 3584)
    assert (row["head_transfers"], row["channel_transfers"]) == (0, 0)
    assert row["flops_saving"] == 0


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (0.0, "outside"),
        (1.5, "outside"),
        (-0.1, "outside"),
        (float("nan"), "outside"),
        (0.001, "at least 1 head"),
    ],
)
def test_impossible_densities(density: float, message: str) -> None:
    with pytest.raises(UsageError, match=f"^vit-digits: .*{message}"):
        plan_rows([get_workload("vit-digits")], [BARTER], [density])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"total_steps": 0}, "steps must be at least 1"),
        ({"total_steps": -5}, "steps must be at least 1"),
        ({"batch_size": 0}, "batch size 0"),
        ({"batch_size": 45_001}, "batch size 45001"),
        ({"transfer_multiplier": 0}, "multiplier"),
        ({"transfer_multiplier": float("nan")}, "multiplier"),
    ],
)
def test_impossible_overrides(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rows("vit-cifar100-finetune", DENSE, **overrides)
