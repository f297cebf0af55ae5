"""Workloads by name, without loading anything heavy."""

import subprocess
import sys

import pytest

from bench.errors import UsageError
from bench.workloads.registry import WORKLOADS, get_workload
from methods.budget import spread, unit_budget
from methods.schedule import CHANNEL, HEAD, transfer_count


def test_names_in_order() -> None:
    assert list(WORKLOADS) == [
        "vit-digits",
        "cct-digits",
        "vit-digits-0-4",
        "vit-digits-5-9",
        "cct-cifar100",
        "vit-tiny-imagenet",
        "vit-cifar100-finetune",
    ]
    assert all(get_workload(name).name == name for name in WORKLOADS)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("vit-digit", "vit-digits"),
        ("cct_cifar100", "cct-cifar100"),
        ("tiny-imagenet", "vit-tiny-imagenet"),
        ("VIT-DIGITS", "vit-digits"),
    ],
)
def test_unknown_workload_suggests_the_nearest(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"{wrong}.*did you mean {right}") as caught:
        get_workload(wrong)
    assert "\n" not in str(caught.value)


def test_unknown_workload_without_a_near_one_lists_all() -> None:
    with pytest.raises(UsageError, match=r"vit-digits, cct-digits, .*vit-cifar100-finetune"):
        get_workload("zzz")


def test_summaries_are_single_lines_and_say_what_is_synthetic() -> None:
    for workload in WORKLOADS.values():
        assert workload.summary
        assert "\n" not in workload.summary
        assert (workload.data == "synthetic") == ("synthetic" in workload.summary)


def test_only_the_digits_scale_their_transfers() -> None:
    scaled = {name for name, w in WORKLOADS.items() if w.transfer_multiplier != 1}
    assert scaled == {name for name in WORKLOADS if "digits" in name}


@pytest.mark.parametrize("name", ["vit-digits", "cct-digits"])
@pytest.mark.parametrize("density", [0.1, 0.3, 0.5, 0.7])
def test_a_digits_run_executes_enough_transfers(name: str, density: float) -> None:
    workload = WORKLOADS[name]
    blocks, multiplier = workload.shape.blocks, workload.transfer_multiplier
    budget = unit_budget(blocks, density)
    heads = spread(budget.heads, blocks.layers)
    channels = spread(budget.channels, blocks.layers)
    assert transfer_count(HEAD, heads, blocks.heads, multiplier) >= 1
    assert transfer_count(CHANNEL, channels, blocks.channels, multiplier) >= 5


def test_full_schedules() -> None:
    assert get_workload("vit-tiny-imagenet").total_steps() == 105_400
    assert get_workload("vit-cifar100-finetune").total_steps() == 105_400
    assert get_workload("cct-cifar100").total_steps() == 105_300


def test_evaluation_follows_the_epoch() -> None:
    assert get_workload("vit-tiny-imagenet").eval_interval() == 1054
    workload = get_workload("vit-digits")
    assert workload.eval_interval() == workload.eval_epochs * workload.steps_per_epoch()
    assert workload.eval_interval(batch_size=630) == 2 * workload.eval_epochs


def test_registry_and_plan_load_nothing_heavy() -> None:
    code = (
        "import sys, bench.plan, bench.workloads.registry;"
        "heavy = {'torch', 'timm', 'sklearn', 'torchvision', 'numpy', 'pandas'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
