"""The experiments of budgets, settings, transfers and step time."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from reports import (
    experiment_budgets,
    experiment_settings,
    experiment_step_time,
    experiment_transfers,
)
from reports.plots_multiplier import against_multiplier
from tests.unit.experiment_fixture import all_notes, config, family, rows_by, run_of, shown, write
from tests.unit.reports_fixture import Row
from tests.unit.time_fixture import timed_run, write_timed


def test_budgets_come_from_the_first_step(tmp_path: Path) -> None:
    full = {"workload": "cct-cifar100", "config_json": config(transfer_multiplier=1.0)}
    more = config(transfer_multiplier=4.0)
    runs = [
        run_of("barter", 0.3, 0, **full),
        run_of("barter", 0.1, 0, workload="vit-digits", config_json=more),
        run_of("static", 0.3, 0),
    ]
    store = write(tmp_path, "budgets", "budgets", {"budgets": "budgets"}, runs)
    (table,) = experiment_budgets.tables(family(store))
    rows = rows_by(table, "density")
    assert list(rows) == [0.3, 0.1]
    paper = rows[0.3]
    assert (paper["heads"], paper["channels"]) == (8, 76)  # 4 layers of 2 and of 19
    assert paper["channels_per_layer"] == "19 19 19 19"
    assert shown(table, paper, "published_heads") == "34"
    assert shown(table, paper, "published_channels") == "1067"
    assert shown(table, paper, "published_channel_transfers") == "60"
    assert (paper["head_transfers"], paper["channel_transfers"]) == ("1 of 1", "5 of 5")
    digits = rows[0.1]
    assert all(digits.get(f"published_{unit}") is None for unit in ("heads", "channel_transfers"))
    assert digits["transfer_multiplier"] == "4.0"


def test_settings_are_marked_by_their_source(tmp_path: Path) -> None:
    recipe = {
        "batch_size": 128,
        "betas": [0.9, 0.999],
        "decay_order": "before",
        "normalisation": {"mean": 0.5},
        "position_std": None,
        "tf32": False,
        "augmentation": {"crop_padding": 4, "mixup_alpha": 0.8},
        "chosen": ["augmentation.mixup_alpha", "betas", "learning_rate", "normalisation"],
    }
    text = config(recipe)
    failed = {"status": "failed", "reason": "x"}
    runs = [
        run_of("dense", 1.0, 0, workload="vit-cifar100-finetune", config_json=text),
        run_of("barter", 0.3, 0, workload="vit-cifar100-finetune", config_json=text, **failed),
    ]
    store = write(tmp_path, "settings", "settings", {"settings": "settings"}, runs)
    (table,) = experiment_settings.tables(family(store))
    rows = rows_by(table, "setting")
    found = {
        key: (row["vit-cifar100-finetune"], row["vit-cifar100-finetune_source"])
        for key, row in rows.items()
    }
    assert found == {
        "epochs": ("10", "paper"),
        "learning_rate": ("0.001", "chosen"),
        "batch_size": ("128", "derived"),
        "betas": ("[0.9, 0.999]", "chosen"),
        "decay_order": ("before", "paper"),
        "normalisation.mean": ("0.5", "chosen"),
        "position_std": ("none", None),
        "tf32": ("no", "paper"),
        "augmentation.crop_padding": ("4", "paper"),
        "augmentation.mixup_alpha": ("0.8", "chosen"),
    }
    assert "not in the specification" in all_notes(table)


# -------------------------------------------------------------------------- transfers


def multiplied(m: float, seed: int, **changes) -> Row:
    text = json.loads(config(transfer_multiplier=m))
    text["changed_options"] = [] if m == 1 else ["transfer_multiplier"]
    more = {"config_json": json.dumps(text), "workload": "vit-tiny-imagenet"}
    return run_of("barter", 0.5, seed, f"-{m:g}", **more | changes)


def test_more_transfers_and_their_cost(tmp_path: Path) -> None:
    runs = [multiplied(m, seed) for m in (6.0, 1.0, 2.0) for seed in range(2)]
    store = write(tmp_path, "more", "transfers", {"transfers": "more"}, runs, noise=0)
    found = family(store)
    (table,) = experiment_transfers.tables(found)
    rows = rows_by(table, "transfer_multiplier")
    assert list(rows) == [1.0, 2.0, 6.0]
    # 6 of 180 timed steps take 5 ms more; 200 steps a run.
    assert rows[2.0]["update_ms_per_step"].value == pytest.approx(5 * 6 / 180)
    assert rows[2.0]["update_s_per_run"].value == pytest.approx(5 * 6 / 180 * 0.2)
    assert shown(table, rows[6.0], "published_update_ms_per_step") == "0.019 to 0.117"
    assert shown(table, rows[6.0], "published_top1_percent") == "52.77 to 53.49"
    assert rows[1.0]["channel_transfers"] == "5 of 5"
    assert "Density here: 0.5. The published one is not known." in all_notes(table)
    ((_, _, figure, _),) = experiment_transfers.pictures(found)
    assert isinstance(figure, Figure)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "top-1 accuracy, test split, %",
        "update cost, ms per optimizer step",
    ]
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["1x", "2x", "6x"]


def test_without_figures_there_is_no_picture_of_transfers(tmp_path: Path) -> None:
    none = {"synthetic_data": True, "test_top1_percent": None, "total_steps": 3}
    runs = [multiplied(1.0, 0, workload="vit-digits", **none)]
    found = family(write(tmp_path, "more", "transfers", {"transfers": "more"}, runs))
    (table,) = experiment_transfers.tables(found)
    (row,) = rows_by(table, "method").values()
    assert shown(table, row, "top1_percent") == "synthetic data"
    assert row.get("published_top1_percent") is None
    summaries = found.here.summaries
    assert against_multiplier(summaries[0].contender.setting, summaries) is None


# -------------------------------------------------------------------------- step time


@pytest.mark.parametrize("workload", ["vit-tiny-imagenet", "vit-digits"])
def test_step_time_stands_beside_rigl_and_what_was_published(tmp_path: Path, workload: str) -> None:
    cases = (("dense", 1.0), ("static", 0.5), ("barter", 0.5), ("rigl", 0.5))
    runs = [timed_run(method, density, workload=workload) for method, density in cases]
    store = write_timed(tmp_path, runs, "clock")
    content = {"experiment": "step-time", "scale": "full", "studies": {"step-time": "clock"}}
    store.experiment_file.write_text(json.dumps(content))
    (table,) = experiment_step_time.tables(family(store))
    rows = rows_by(table, "method")
    # 7 ms; BARTER's scores and updates add 0.3 and 0.24 ms.
    assert rows["barter"]["speedup_over_rigl"].value == pytest.approx(7 / 7.54, rel=0.01)
    assert rows["barter"]["verdict_against_rigl"] == "slower"
    assert rows["dense"]["speedup_over_rigl"].value == pytest.approx(0.7, rel=0.01)
    assert rows["rigl"]["verdict_against_rigl"] == "reference"
    assert rows["rigl"]["speedup_over_dense"].value == pytest.approx(10 / 7, rel=0.01)
    published = [
        shown(table, rows["barter"], "published_step_ms"),
        shown(table, rows["barter"], "published_speedup_over_rigl"),
        shown(table, rows["rigl"], "published_step_ms"),
    ]
    if workload == "vit-digits":
        assert published == ["–"] * 3  # noqa: RUF001
    else:
        assert published == ["23.19", "1.78", "41.23"]
        assert "NVIDIA L40" in all_notes(table)
    assert rows["static"]["published_step_ms"] is None
    assert "RigL here: rigl 0.5." in all_notes(table)
