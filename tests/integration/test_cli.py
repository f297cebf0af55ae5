"""The command line as its user sees it: exit codes, one-line refusals, and what is not loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.store import StudyStore
from bench.study_claim import claim
from bench.study_file import study_spec
from tests.support.command import call


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


REFUSED = [
    (["run", "--methods", "bartr"], "unknown method 'bartr'; did you mean barter?"),
    (["run", "--methods", "rigl:intervall=4"], "no option 'intervall'; did you mean 'interval'?"),
    (["run", "--methods", "rigl:interval=x"], "rigl: option interval takes an int, not 'x'"),
    (["run", "--methods", "dense,rigl:alpha=7"], "rigl: alpha is 7.0, not in (0, 1]"),
    (["run", "--methods", "rigl:"], "'rigl:': after the method come options"),
    (["run", "--workload", "vit-digit"], "unknown workload 'vit-digit'; did you mean vit-digits?"),
    (["run", "--density", "1.5"], "density 1.5 is outside (0, 1]"),
    (["run", "--density", "0"], "density 0 is outside (0, 1]"),
    (["run", "--density", "some"], "--density takes a number, not 'some'"),
    (["run", "--density", "nan"], "density nan is outside (0, 1]"),
    (["run", "--density", "0.001"], "at least 1 head in the model"),
    (["run", "--steps", "-3"], "--steps -3: a run has 1 to 10,000,000 steps"),
    (["run", "--steps", "99999999999999999999"], "a run has 1 to 10,000,000 steps"),
    (["run", "--bare"], "--bare: an option of --mode time alone"),
    (["run", "--mode", "time", "--target", "0%", "--dry-run"], "--target is 0%"),
    (["run", "--threads", "100000"], "--threads 100000: this machine has"),
    (["check", "--baseline", ""], "--baseline takes a file"),
    (["run", "--steps", "0"], "a run has 1 to 10,000,000 steps"),
    (["run", "--steps", "few"], "--steps"),
    (["run", "--batch-size", "100000"], "batch size 100000 is outside 1 to"),
    (["run", "--batch-size", "0"], "batch size 0 is outside 1 to"),
    (["run", "--seeds", "one"], "--seeds takes a whole number, not 'one'"),
    (["run", "--seeds", "-1"], "seed -1 is outside"),
    (["run", "--device", "tpu"], "tpu"),
    (["run", "--gpu", "L40"], "--device cpu"),
    (["run", "--device", "cuda"], "--device cpu"),
    (["run", "--autocast", "fp8"], "--autocast is 'fp8': one of none, bf16, fp16 it must be"),
    (["run", "--attention", "xformers"], "--attention is 'xformers': one of auto, math, flash"),
    (["run", "--attention", "cudnn", "--device", "cpu"], "has auto, math, flash"),
    (["run", "--tf32", "--device", "cpu"], "--tf32: there is no TF32 on cpu"),
    (["run", "--optimizer", "lion"], "--optimizer is 'lion': one of fused, foreach, loop"),
    (["run", "--threads", "0"], "--threads 0: a run needs at least 1 thread"),
    (["plan", "--autocast", "fp8"], "--autocast is 'fp8'"),
    (["run", "--study", "a/b"], "study name 'a/b'"),
    (["run", "--workload", "vit-tiny-imagenet"], "--steps 20"),
    (["run", "missing.toml"], "cannot read study file missing.toml"),
    (["run", "--wat"], "No such option"),
    (["frobnicate"], "No such command"),
    (["plan", "--density", "2"], "density 2 is outside (0, 1]"),
    (["plan", "--methods", "s2vite:overhead=offical"], "not lean or official"),
    (["plan", "--workload", "cct-cifar100", "--batch-size", "3"], "mixes pairs of images"),
    (["plan", "--workload", "vit"], "unknown workload 'vit'"),
    (["plan", "--gpu", "L40"], "--gpu: an option of --predict alone"),
    (["plan", "--predict", "--gpu", "B9000"], '[cards."B9000"] with fp32_tflops'),
    (["plan", "--predict", "--device", "cuda"], "say which GPU"),
    (["plan", "--predict", "--attention", "cudnn"], "cpu has auto, math, flash"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=lambda v: " ".join(v)[:40])
def test_refused(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.err.startswith("bench: ")
    assert output.err.count("\n") == 1, "one line"
    assert output.out == ""
    assert list(tmp_path.iterdir()) == [], "a refused request leaves nothing behind"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metods = ['barter']", "unknown key 'metods'; did you mean 'methods'?"),
        ("methods = 'barter", "not valid TOML"),
        ("steps = 'many'", "steps takes a whole number, not 'many'"),
        ("compile = 'yes'", "compile takes true or false, not 'yes'"),
        ("[[grid]]\nautocast = 'half'", "--autocast is 'half'"),
        ("[[grid]]\nthreads = 0", "--threads 0"),
        ("steps = 2.5", "steps takes a whole number, not 2.5"),
        ("density = [true]", "density takes a number, not True"),
        ("methods = []", "a study needs at least one method"),
        ("[options.barter]\nbeta = 2.0", "barter: beta is 2.0, not in [0, 1)"),
        ("[options.barter]\nbetta = 0.9", "barter has no option 'betta'; did you mean 'beta'?"),
        ("[options.barter]\nbeta = 'x'", "barter: option beta takes a float, not 'x'"),
        ("[options.bart]\nbeta = 0.5", "unknown method 'bart'"),
        ("options = 3", "takes one table per method"),
        ("grid = 3", "grid takes tables, each under its own line [[grid]]"),
        ("grid = [3]", "grid takes tables"),
        ("grid = []", "a study needs at least one grid"),
        ("grids = []", "unknown key 'grids'; did you mean 'grid'?"),
        ("[[grid]]\nseed = 0", "mine.toml: grid: unknown key 'seed'; did you mean 'seeds'?"),
        ("[[grid]]\n[[grid]]\nseeds = []", "a study needs at least one seed"),
        ("[[grid]]\n[[grid]]\ndensity = 'x'", "grid 2: density takes a number, not 'x'"),
        ("[[grid]]\nmethods = ['bartr']", "unknown method 'bartr'"),
        ("[[grid]]\ndensity = [0.3]\n[[grid]]\ndensity = 2", "density 2 is outside (0, 1]"),
        ("[options.barter]\ntransfer_multiplier = inf", "not in (0, 100]"),
        ("[options.barter]\ntransfer_multiplier = 1e300", "not in (0, 100]"),
        ("[options.barter]\nnoise_scale = inf", "not in [0, 1]"),
    ],
)
def test_bad_study_file(
    text: str,
    message: str,
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study_file.write_text(text)
    assert call(monkeypatch, "run", str(study_file), "--dry-run") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_dry_run_refuses_what_a_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"steps": 10, "name": "mine", "device": "cpu"}
    claim(StudyStore(tmp_path, "mine"), study_spec(None, given))
    common = ["run", "--study", "mine", "--results", str(tmp_path), "--dry-run"]
    common += ["--device", "cpu", "--steps"]
    assert call(monkeypatch, *common, "11") == 2
    assert "steps 10, not 11" in capsys.readouterr().err


def test_bare_command_prints_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch) == 0
    assert "Commands:" in capsys.readouterr().out


def test_plan_is_not_cut_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert call(monkeypatch, "plan", "--workload", "vit-cifar100-finetune") == 0
    shown = capsys.readouterr().out
    for figure in ("906.17", "15.276 P", "2,742,628", "4 + 136", "89.0%"):
        assert figure in shown
    assert "…" not in shown


@pytest.mark.parametrize("arguments", [["list"], ["plan", "--json"], ["run", "--dry-run"]])
def test_reader_that_goes_away_or_a_full_disk(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.cli", *arguments]
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False)
    os.close(write)
    assert (gone.returncode, gone.stderr) == (141, b"")
    with Path("/dev/full").open("w") as full:
        refused = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert refused.returncode == 2
    assert refused.stderr == "bench: cannot write the output: No space left on device\n"


def test_nothing_heavy_is_loaded_for_refusals_lists_and_plans(tmp_path: Path) -> None:
    """Importing torch and timm takes seconds: answers that need neither must not wait for them."""
    calls = [arguments for arguments, _ in REFUSED] + [
        ["--help"],
        ["--version"],
        ["list"],
        ["plan", "--workload", "cct-cifar100", "--json"],
        ["run", "--dry-run"],
        ["report"],
        ["report", "nothing"],
    ]
    script = f"""
import contextlib, io, sys
from bench.cli import main
for arguments in {calls!r}:
    sys.argv = ["bench", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit:
            pass
    loaded = {{"torch", "torchvision", "timm", "sklearn", "matplotlib"}} & set(sys.modules)
    assert not loaded, (arguments, loaded)
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)


def plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> list[dict[str, Any]]:
    assert call(monkeypatch, "plan", *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_plan_gives_the_published_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = plan(monkeypatch, capsys, "--workload", "vit-cifar100-finetune", "--density", "0.1,0.3")
    by = {(row["method"], row["density"]): row for row in rows}
    dense = by["dense", 1.0]
    assert dense["macs_forward_per_image"] == 189_503_616
    assert dense["macs_train_per_image"] == 566_151_552
    assert dense["flops_train_total"] / 1e15 == pytest.approx(15.276, abs=5e-4)
    assert dense["head_transfers"] is None
    assert (dense["steps_per_epoch"], dense["total_steps"]) == (1054, 105_400)
    tenth, third = by["barter", 0.1], by["barter", 0.3]
    assert round(tenth["matched_epochs"], 2) == 906.17
    assert round(third["matched_epochs"], 2) == 324.28
    assert round(100 * tenth["flops_saving"], 1) == 89.0
    assert round(100 * third["flops_saving"], 1) == 69.2
    assert (third["head_transfers"], third["channel_transfers"]) == (2, 58)
    (cct,) = plan(
        monkeypatch,
        capsys,
        *("--workload", "cct-cifar100", "--methods", "barter", "--density", "0.3"),
    )
    assert (cct["heads"], cct["channels"]) == (34, 1067)
    assert sum(cct["heads_per_layer"]) == 34
    assert (cct["head_transfers"], cct["channel_transfers"]) == (2, 60)


def test_plan_predicts_for_cards_that_are_not_here(
    study_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study_file.write_text(
        'methods = ["dense", "barter"]\ndensity = 0.3\nsteps = 40\nbatch_size = 4\n'
        '[cards.Mine]\nfp32_tflops = 1\nbandwidth_gb_per_s = 10\nmemory_gb = 8\nsource = "me"\n'
    )
    rows = plan(monkeypatch, capsys, str(study_file), "--predict", "--gpu", "Mine")
    assert [row["method"] for row in rows] == ["dense", "barter", "barter", "barter"]
    assert {(row["gpu"], row["attention_kernel"]) for row in rows} == {("Mine", "efficient")}
    assert all(row["predicted_peak_allocated_bytes"] > 0 for row in rows)
    assert all(row["predicted_step_ms"] > 0 for row in rows)
    (on_cpu, *_) = plan(monkeypatch, capsys, str(study_file), "--predict", "--device", "cpu")
    assert (on_cpu["attention_kernel"], on_cpu["predicted_step_ms"]) == ("flash", None)


def test_plan_follows_a_study_files_multiplier(
    study_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study_file.write_text(
        'workload = "cct-cifar100"\nmethods = "barter"\ndensity = 0.3\n'
        "[options.barter]\ntransfer_multiplier = 6\n"
    )
    (row,) = plan(monkeypatch, capsys, str(study_file))
    # 6 * 34 * 2/34 and 6 * 1067 * 60/1067, the product before the rounding.
    assert (row["head_transfers"], row["channel_transfers"]) == (12, 360)


def test_plan_of_grids_names_variants_and_has_each_row_once(
    study_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study_file.write_text(
        'density = 0.3\nmethods = ["dense", "barter", "barter:transfer_multiplier=4.0"]\n'
        "[[grid]]\n[[grid]]\n"
        'methods = ["dense", "barter:transfer_multiplier=6", "barter"]\ndensity = [0.1, 0.3]\n'
    )
    rows = plan(monkeypatch, capsys, str(study_file))
    assert [(row["method"], row["density"], row["channel_transfers"]) for row in rows] == [
        ("dense", 1.0, None),
        ("barter", 0.3, 35),
        ("barter:transfer_multiplier=6", 0.1, 16),
        ("barter:transfer_multiplier=6", 0.3, 52),
        ("barter", 0.1, 11),
    ]


def test_dry_run_names_variants_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    methods = "rigl,rigl:interval=100,rigl:stop=0.50:interval=4"
    options = ["--methods", methods, "--seeds", "0", "--device", "cpu", "--dry-run"]
    assert call(monkeypatch, "run", *options) == 0
    shown = [line.split()[1] for line in capsys.readouterr().out.splitlines() if "to do" in line]
    assert shown == ["rigl", "rigl:interval=4:stop=0.5"]


def test_list_and_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "list") == 0
    shown = capsys.readouterr().out
    for name in ("dense", "static", "barter-random-pair", "vit-digits", "cct-cifar100"):
        assert name in shown
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("bench ")


def test_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "doctor", "--results", str(tmp_path)) == 0
    assert "CPU" in capsys.readouterr().out
