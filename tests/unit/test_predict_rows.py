"""Rows and tables of `bench plan --predict`."""

import io
import json
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.errors import UsageError
from bench.predict.cards import Card
from bench.predict.rows import COLUMNS, PARTS, PEAK, predicted_rows
from bench.predict.tables import show_prediction
from bench.predict.target import Target, find_target
from bench.study_file import study_spec

CPU = find_target("cpu", None)
SLOW = Target("cuda", Card("Slow", 1, 10, 2, "made up"))


def rows(target: Target, methods: str = "dense,barter", **given: Any) -> list[dict[str, Any]]:
    asked = {"workload": "vit-digits", "methods": methods, "density": "0.3", "batch_size": 2}
    spec = study_spec(None, asked | {"steps": 40} | given, to_run=False)
    with torch.random.fork_rng(devices=[]):
        return predicted_rows(spec, target)


def shown(table: list[dict[str, Any]], target: Target) -> str:
    console = Console(file=io.StringIO(), width=80)
    show_prediction(table, target, console)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_rows_say_what_every_kind_of_step_costs() -> None:
    table = rows(SLOW)
    assert all(tuple(row) == COLUMNS for row in table)
    assert json.loads(json.dumps(table)) == table
    assert [(row["method"], row["kind"]) for row in table] == [
        ("dense", "ordinary"),
        ("barter", "collecting"),
        ("barter", "ordinary"),
        ("barter", "collecting+update"),
    ]  # of one seed, though the default has three
    for row in table:
        assert row[PEAK] == sum(row[column] for column in PARTS.values()) > 0
        assert row["executed_macs"] == row["ideal_macs"]
        assert row["executed_macs"] == row["executed_forward_macs"] + row["executed_backward_macs"]
        assert (row["gpu"], row["attention_kernel"], row["device"]) == ("Slow", "efficient", "cuda")
        assert row["workspace_included"] is False
        assert row["gpu_memory_bytes"] == 2 * 10**9
        # Traffic alone takes so long at 10 GB/s; products at 1 TFLOP/s may add to it.
        traffic_ms = row["predicted_moved_bytes"] / 10e9 * 1e3
        arithmetic_ms = 2 * (row["executed_macs"] + row["recomputed_macs"]) / 1e12 * 1e3
        least = max(traffic_ms, arithmetic_ms)
        assert 0.999 * least <= row["predicted_step_ms"] <= 1.001 * (traffic_ms + arithmetic_ms)


def test_masked_methods_execute_more_than_they_need() -> None:
    table = rows(CPU, "rigl")
    ideal = {row["kind"]: row["ideal_macs"] for row in table}
    assert ideal.keys() == {"ordinary", "dense_gradient", "update+dense_gradient"}
    assert ideal["ordinary"] < ideal["dense_gradient"] == ideal["update+dense_gradient"]
    for row in table:
        assert row["executed_macs"] > row["ideal_macs"]
        assert row["predicted_peak_method_state_bytes"] > 0


def test_a_cpu_has_a_time_where_its_peaks_are_known() -> None:
    (unknown,) = rows(CPU, "dense")
    assert (unknown["predicted_step_ms"], unknown["gpu_memory_bytes"]) == (None, None)
    (known,) = rows(find_target("cpu", None, [Card("cpu", 0.1, 20, 64, "measured")]), "dense")
    assert known["predicted_step_ms"] > 0
    assert (known["gpu"], known["device"]) == (None, "cpu")
    same = ("attention_kernel", PEAK, "predicted_moved_bytes", "executed_macs")
    assert [known[name] for name in same] == [unknown[name] for name in same]


def test_what_cannot_be_predicted_is_a_row_with_its_reason() -> None:
    table = rows(CPU, "dense,srigl", density="0.01")
    assert [row["reason"] is None for row in table] == [True, False]
    assert table[1][PEAK] is None
    assert "a constant fan-in" in table[1]["reason"]
    text = shown(table, CPU)
    assert "Not predicted: vit-digits, srigl at 0.01, no step: srigl: " in text


def test_grids_of_different_executions_have_tables_of_their_own() -> None:
    table = rows(SLOW, "dense", batch_size=32)
    table += rows(SLOW, "dense", batch_size=32, attention="math")
    assert [row["attention_kernel"] for row in table] == ["efficient", "math"]
    assert table[1][PEAK] > table[0][PEAK]
    text = shown(table, SLOW)
    assert "vit-digits, batch 32, Slow: predicted peak of allocated memory, MiB" in text
    assert "vit-digits, batch 32, Slow (attention math): predicted peak" in text


def test_tables_say_predicted_without_workspace_and_from_where() -> None:
    text = " ".join(shown(rows(SLOW, "dense"), SLOW).split())
    assert "Workspace is not included" in text
    assert "Peaks of Slow: made up." in text
    assert "predicted step" in text
    assert "[cards.cpu]" in shown(rows(CPU, "dense"), CPU)


def test_an_execution_that_the_target_cannot_have_is_refused() -> None:
    with pytest.raises(UsageError, match="half precision"):
        rows(SLOW, "dense", attention="flash")
