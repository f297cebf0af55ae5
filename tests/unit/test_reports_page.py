"""The whole report: files, pictures, what is said when there is nothing to show."""

import io
import json
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from bench.errors import UsageError
from bench.store import StudyStore
from reports.contenders import group
from reports.load import NO_UPDATE, load
from reports.page import pictures, render
from reports.plots_accuracy import accuracy
from reports.plots_bars import memory, step_time
from reports.plots_widths import widths
from reports.summary import Summary, summarise
from tests.unit.reports_fixture import (
    DENSE_MACS,
    demo_runs,
    run_row,
    tables_of,
    true_ordinary_ms,
    write_study,
)

NO_ACCURACY = {"test_top1_percent": None, "test_macro_f1_percent": None, "test_images": None}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> StudyStore:
    return write_study(tmp_path_factory.mktemp("results"), demo_runs())


def rendered(store: StudyStore, width: int = 100) -> tuple[list[Path], str]:
    out = io.StringIO()
    written = render(store, Console(width=width, file=out, force_terminal=False))
    return written, out.getvalue()


def summaries_of(store: StudyStore) -> list[Summary]:
    records = load(store)
    return [summarise(contender, records) for contender in group(records.shown)]


# --------------------------------------------------------------------------- the report


def test_a_full_report_is_written_and_printed(demo: StudyStore) -> None:
    demo.report_folder.mkdir()
    stale = [demo.report_folder / name for name in ("widths-set-0.5.png", "step_time-old-2.svg")]
    others = [demo.report_folder / name for name in ("notes.md", "mine.png")]
    for path in (*stale, *others):
        path.write_text("text")
    written, text = rendered(demo)
    assert all(path.exists() for path in others)
    assert not any(path.exists() for path in stale)
    assert set(demo.report_folder.iterdir()) == {*written, *others}
    assert len(set(written)) == len(written)
    assert written[0] == demo.report_folder / "report.md"
    names = {path.name for path in written}
    pictures_made = {
        "ledger",
        "step_time",
        "memory",
        "accuracy",
        "widths-barter-0.1",
        "widths-barter-0.3",
    }
    tables = {
        *("ledger", "ledger_bytes"),
        *("step_time", "speedups", "kinds_of_step", "memory", "memory_by_cause"),
        *("memory_by_kind", "compute", "operations"),
        *("parameters", "accuracy", "transfers", "left_out", "configuration"),
    }
    assert names == {
        "report.md",
        *(f"{name}{suffix}" for name in pictures_made for suffix in (".png", ".svg")),
        *(f"{name}{suffix}" for name in tables for suffix in (".csv", ".tex")),
    }
    for path in written:
        content = path.read_bytes()
        assert content, path
        if path.suffix == ".png":
            assert content[:8] == b"\x89PNG\r\n\x1a\n"
            w, h = struct.unpack(">II", content[16:24])
            assert w >= 900
            assert h >= 300
        if path.suffix == ".svg":
            assert ET.fromstring(content).tag.endswith("svg")
    page = written[0].read_text(encoding="utf-8")
    for path in written[1:]:
        assert f"({path.name})" in page
    assert "Left out: widths per layer over training, barter 0.1 (invalid" in page
    assert "15 runs (13 used, 1 invalid, 1 failed)" in page
    assert "How the intervals are made" in page
    for shown in ("Step time", "Left out or to be read with care", "static 0.1 seed 2"):
        assert shown in text


def test_a_study_whose_runs_all_failed_still_has_a_report(tmp_path: Path) -> None:
    reasons = ("CUDA out of memory [red]", "loss is not finite")
    runs = [
        run_row(method, 0.3, 0, status=status, reason=reason, device_name=None, config_json=None)
        for method, status, reason in zip(
            ("static", "barter"), ("failed", "skipped"), reasons, strict=True
        )
    ]
    written, text = rendered(write_study(tmp_path, runs))
    assert {path.name for path in written} == {"report.md", "left_out.csv", "left_out.tex"}
    page = written[0].read_text()
    for reason in reasons:
        assert reason in page
        assert reason in text
    assert "2 runs (1 failed, 1 skipped)" in page


def test_synthetic_data_leaves_the_accuracy_picture_out(tmp_path: Path) -> None:
    runs = [run_row(m, d, 0, synthetic_data=True, **NO_ACCURACY) for m, d in (("dense", 1.0),)]
    written, text = rendered(write_study(tmp_path, runs))
    assert "accuracy.png" not in {path.name for path in written}
    page = written[0].read_text()
    assert "Left out: accuracy against compute, since nothing can be learned from synthetic" in page
    assert "synthetic data" in text


def test_several_settings_have_their_own_pictures(tmp_path: Path) -> None:
    here = run_row("dense", 1.0, 0)
    there = run_row("dense", 1.0, 1, device_name="Other/CPU", threads=4)
    store = write_study(tmp_path, [here, there])
    records = load(store)
    names = [name for name, _, figure, _ in pictures(records, summaries_of(store)) if figure]
    assert len(set(names)) == len(names) == 6
    assert all("/" not in name for name in names)
    _, text = rendered(store)
    assert "Runs of vit-digits that differ in device_name (Example CPU and Other/CPU)" in text


def test_versions_of_the_harness_are_named(tmp_path: Path) -> None:
    commits = ("0123abc", "4567def+dirty")
    runs = [run_row("dense", 1.0, seed, git_commit=c) for seed, c in enumerate(commits)]
    _, text = rendered(write_study(tmp_path, runs))
    assert "0123abc, 4567def+dirty" in text
    assert "several versions" in text
    assert "cannot be reproduced" in text


# --------------------------------------------------------------------------- refused input


def refused(store: StudyStore) -> str:
    with pytest.raises(UsageError) as caught:
        rendered(store)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("table", ["runs", "steps", "evals", "updates"])
def test_a_corrupt_record_is_one_line_and_writes_nothing(tmp_path: Path, table: str) -> None:
    store = write_study(tmp_path, [run_row("dense", 1.0, 0)])
    path = store.folder / table / "dense-1_0-0.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    assert str(path) in refused(store)
    assert not store.report_folder.exists()


def test_predictions_that_cannot_be_read_are_one_line_and_write_nothing(tmp_path: Path) -> None:
    store = write_study(tmp_path, [run_row("dense", 1.0, 0)])
    store.predictions_file.write_text('{"schema_version": 9, "rows": []}')
    assert "schema version 9, newer than this program's 1" in refused(store)
    assert not store.report_folder.exists()


def test_predictions_that_fit_no_run_are_counted_at_the_head(tmp_path: Path) -> None:
    store = write_study(tmp_path, [run_row("dense", 1.0, 0)])
    row = {"workload": "cct-digits", "method": "dense", "density": 1, "batch_size": 64}
    row |= {"kind": "ordinary", "device": "cpu", "predicted_step_ms": 9.0}
    store.predictions_file.write_text(json.dumps([row]))
    _, text = rendered(store)
    assert "Predictions without a measured counterpart: 1 of 1" in text


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    store = write_study(tmp_path, [run_row("dense", 1.0, 0, status="failed", reason="x")])
    store.report_folder.write_text("a file")
    assert str(store.report_folder) in refused(store)


def test_an_unknown_study_is_one_line(demo: StudyStore) -> None:
    assert "did you mean 'demo'" in refused(StudyStore(demo.root, "demp"))


def test_a_report_loads_no_torch_and_a_refusal_no_matplotlib(tmp_path: Path) -> None:
    run = run_row("dense", 1.0, 0, status="failed", reason="x")
    store = write_study(tmp_path, [run])
    program = """
import sys
from pathlib import Path
from rich.console import Console
from bench.errors import UsageError
from bench.store import StudyStore
from reports.page import render
heavy = {"torch", "timm", "pandas", "sklearn", "scipy.stats", "matplotlib.pyplot"}
try:
    render(StudyStore(Path(sys.argv[1]), "absent"), Console())
except UsageError:
    assert "matplotlib" not in sys.modules
    assert not heavy & set(sys.modules), heavy & set(sys.modules)
render(StudyStore(Path(sys.argv[1]), "demo"), Console())
assert not heavy & set(sys.modules) - {"pandas"}, heavy & set(sys.modules)
"""
    command = [sys.executable, "-c", program, str(store.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------ pictures


def test_bars_start_at_zero_and_show_mean_and_interval(demo: StudyStore) -> None:
    summaries = summaries_of(demo)
    figure = step_time(summaries[0].contender.setting, summaries)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    means = [s.times.mean for s in summaries]
    assert [bar.get_width() for bar in axes.patches] == [m.value for m in means if m]  # pyright: ignore
    assert axes.patches[0].get_width() == pytest.approx(true_ordinary_ms("dense", 1), rel=0.02)  # pyright: ignore
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlabel() == "mean step time, ms"
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [
        *("dense 1.0", "static 0.1", "static 0.3", "barter 0.1", "barter 0.1", "barter 0.3")
    ]
    assert [bar.get_hatch() is not None for bar in axes.patches] == [False] * 4 + [True, False]
    assert [ends for ends, _ in whiskers_of(axes)] == [
        pytest.approx([m.low, m.high]) for m in means if m
    ]
    title = figure.get_suptitle()
    assert "vit-digits on Example CPU" in title
    assert "n = 3 runs, 540 steps" in axes.texts[0].get_text()


def whiskers_of(axes: Any) -> list[tuple[list[float], list[str]]]:
    """Ends and end markers of every black whisker."""
    black = [line for line in axes.lines if line.get_color() == "black"]
    found = []
    for line in black:
        ends = list(line.get_xdata())
        if len(ends) == 2 and line.get_linestyle() == "-":
            at = {float(m.get_xdata()[0]): m.get_marker() for m in black if len(m.get_xdata()) == 1}
            found.append((ends, [at[end] for end in ends]))
    return found


def test_an_interval_that_says_nothing_does_not_hide_the_bars(tmp_path: Path) -> None:
    store = write_study(tmp_path, [run_row("dense", 1.0, 0)])
    slow = run_row("dense", 1.0, 1)
    store.write_run(slow["run_id"], tables_of(slow, ordinary_ms=200.0))
    summaries = summaries_of(store)
    figure = step_time(summaries[0].contender.setting, summaries)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert axes.get_xlim()[1] < 3 * axes.patches[0].get_width()  # pyright: ignore
    ((_, caps),) = whiskers_of(axes)
    assert caps == ["|", ">"]
    assert "[<10." in axes.texts[0].get_text()


def test_memory_has_the_dense_level(demo: StudyStore) -> None:
    summaries = summaries_of(demo)
    figure = memory(summaries[0].contender.setting, summaries)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches][:2] == pytest.approx([64, 20.8], rel=1e-3)  # pyright: ignore
    assert [line.get_xdata()[0] for line in axes.lines] == [64]  # pyright: ignore


def test_accuracy_is_drawn_against_flops_not_macs(demo: StudyStore) -> None:
    records, summaries = load(demo), summaries_of(demo)
    figure = accuracy(summaries[0].contender.setting, summaries, records)
    assert isinstance(figure, Figure)
    panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["density 0.1", "density 0.3"]
    bold = [line for line in panels[1].lines if line.get_linewidth() > 1]
    assert len(bold) == 3  # dense, static, barter
    x, y = (np.asarray(data, float) for data in bold[0].get_data())
    assert "GFLOPs" in panels[1].get_xlabel()
    assert x[-1] == pytest.approx(2 * DENSE_MACS * 64 * 200 / 1e9)
    assert np.all(np.diff(y) > 0)
    assert y[-1] == pytest.approx(
        np.mean([10 + (95 + s - 10) * (1 - np.exp(-5)) for s in (0, 0.5, 1)])
    )
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["dense", "static", "barter", f"barter ({NO_UPDATE})"]


def test_widths_are_those_of_the_first_seed(demo: StudyStore) -> None:
    records, summaries = load(demo), summaries_of(demo)
    barter = summaries[-1].contender
    figure = widths(barter, records)
    assert isinstance(figure, Figure)
    heads, channels = (axes for axes in figure.axes if axes.images)
    change = np.asarray(channels.images[0].get_array())
    assert change.shape == (4, 200)
    assert change[:, 0].tolist() == [0, 0, 0, 0]
    assert change[:, -1].tolist() == [5, 0, 0, -5]
    assert np.asarray(heads.images[0].get_array())[:, [49, 50]].T.tolist() == [
        [0, 0, 0, 0],
        [1, 0, 0, -1],
    ]
    texts = [text.get_text() for text in channels.texts]
    assert (texts[0], texts[1]) == ("19", "24")
    assert "seed 0" in figure.get_suptitle()
    assert widths(summaries[1].contender, records) is None  # static: nothing changes


def test_pictures_without_data_are_left_out(tmp_path: Path) -> None:
    runs = [run_row("dense", 1.0, 0, total_steps=3, peak_allocated_bytes=None)]
    store = write_study(tmp_path, runs)
    summaries, records = summaries_of(store), load(store)
    setting = summaries[0].contender.setting
    assert step_time(setting, summaries) is None
    assert memory(setting, summaries) is None
    assert accuracy(setting, summaries, records) is None
