"""The page of goals and measurements: limits, verdicts, and what it makes of known records."""

from pathlib import Path

import pytest

from reports.formats import NOTHING
from reports.statistics import Estimate
from tests.speed.operators import REST, group_of
from tests.speed.page import operators_table, page, reached, read
from tests.speed.plan import DENSITIES, MODELS, RIGL_DENSITIES, Variant
from tests.unit.time_fixture import timed_run, write_timed

VIT, CCT = MODELS


def test_limits_are_the_macs_of_training() -> None:
    limits = {m.name: [f"{m.limit(density):.3f}" for density in DENSITIES] for m in MODELS}
    assert limits == {
        "ViT": ["0.110", "0.308", "0.506", "0.704"],
        "CCT": ["0.104", "0.304", "0.502", "0.701"],
    }


def test_a_study_holds_every_contender_once_and_executions_apart() -> None:
    plain, padded = (Variant(1, pad).study(VIT) for pad in (1, 16))
    runs = [(run.method, run.density) for run in plain.runs()]
    expected = [("dense", 1.0)]
    expected += [(method, density) for method in ("static", "barter") for density in DENSITIES]
    expected += [("rigl", density) for density in RIGL_DENSITIES]
    assert sorted(runs) == sorted(expected)
    assert {run.batch_size for run in plain.runs()} == {16}
    assert (plain.name, padded.name) == ("speed-vit-1-thread", "speed-vit-1-thread-pad-16")
    assert not {r.run_id for r in plain.runs()} & {r.run_id for r in padded.runs()}


@pytest.mark.parametrize(
    ("low", "high", "least", "expected"),
    [
        (0.50, 0.54, False, "reached"),
        (0.50, 0.56, False, "open"),
        (0.56, 0.58, False, "missed"),
        (0.56, 0.58, True, "reached"),
        (0.50, 0.54, True, "missed"),
        (None, None, False, NOTHING),
    ],
)
def test_a_goal_is_reached_by_the_whole_interval(
    low: float | None, high: float | None, least: bool, expected: str
) -> None:
    assert reached(Estimate(0.53, low, high), 0.55, least) == expected


def test_operators_are_grouped_by_what_they_do() -> None:
    groups = {
        "aten::addmm": "matrix products",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": "attention",
        "aten::native_layer_norm_backward": "layer norms",
        "aten::gelu_backward": "GELU, ReLU",
        "aten::mkldnn_convolution": "tokenizer: convolution, pooling",
        "aten::_fused_adam_": "Adam and weight decay",
        "aten::_foreach_mul_": "Adam and weight decay",
        "aten::add_": "sums, products by element, copies",
        "aten::_log_softmax": "loss",
        "aten::view": REST,
        "autograd::engine::evaluate_function: AddmmBackward0": REST,
    }
    assert {name: group_of(name) for name in groups} == groups


def test_known_records_make_the_page(tmp_path: Path) -> None:
    """Dense takes 10 ms a step, the others 10 * density + 2; of BARTER collecting 1 ms more in 0.3
    of the steps, and 6 updates of 8 ms in 200 steps."""
    variant = Variant()
    runs = [timed_run("dense", 1.0)]
    runs += [timed_run(method, d) for method in ("static", "barter") for d in DENSITIES[:3]]
    store = write_timed(tmp_path, runs, variant.study(VIT).name, noise=0.0)
    profile = tmp_path / "profile.json"
    profile.write_text('{"updates": [{"density": 0.3, "ratios": [0.01, 0.02, 0.03]}]}')
    text = page({(variant, "ViT"): read(store, profile)})
    rows = [[c.strip() for c in x.split("|")[1:-1]] for x in text.splitlines() if x[:1] == "|"]
    goals = {row[0]: row[1:] for row in rows if len(row) == 8}
    # 5 ms over 10 ms, and 5 + 0.3 + 0.03 * 8 ms.
    assert goals["0.3"][:4] == ["0.308", "0.37", "0.33", "0.500 [0.500, 0.500]"]
    assert goals["0.3"][4].startswith("0.554 [")
    assert goals["0.3"][5:] == ["missed", "+0.246"]
    assert goals["0.7"] == ["0.704", "0.74", "0.71", NOTHING, NOTHING, NOTHING, NOTHING]
    moving = {row[0]: row[1:] for row in rows if len(row) == 6}
    # 6 ms over 5 ms, 5.54 over 5; an update 8 / 5.54.
    assert moving["0.3"][:2] == ["+20.0% [+20.0%, +20.0%]", "missed"]
    assert moving["0.3"][2].startswith("+10.8% [")
    assert moving["0.3"][3].startswith("+144.4% [")
    assert moving["0.3"][4] == "2.00% [1.50%, 2.50%], n = 3"
    assert moving["0.5"][4] == NOTHING
    assert "launches / rounds (in all), of every contender 5 / 15" in text
    assert "* Not recorded: 2 threads." in text
    assert "* Not recorded: 1 thread." not in text


def test_operators_are_summed_and_compared() -> None:
    def row(method: str, mm: float, adds: float) -> dict:
        return {"method": method, "ms": {"mm": mm, "add": adds}, "calls": {"mm": 4, "add": 9}}

    text = operators_table([row("dense", 8, 2), row("static", 1, 3), row("barter", 1, 3.5)])
    assert [[cell.strip() for cell in x.split("|")[1:-1]] for x in text.splitlines()[2:]] == [
        ["all", "10.0", "4.00", "0.40", "100.0%", "13", "+0.50"],
        ["add", "2.00", "3.00", "1.50", "75.0%", "9", "+0.50"],
        ["mm", "8.00", "1.00", "0.12", "25.0%", "4", "+0.00"],
    ]


def test_a_page_without_records_says_so() -> None:
    text = page({})
    assert "Nothing has been recorded yet." in text
    assert text.count("* Not recorded: ") == 4
