"""The README's examples do what it says."""

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.method_registry import METHODS
from bench.study_file import study_spec
from bench.workloads.registry import WORKLOADS

README = (Path(__file__).parents[2] / "README.md").read_text()
LEAD = README.partition("\n## ")[0]


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return found


def test_lead_table_is_the_demo() -> None:
    """In any order: a row per contender, an accuracy per seed."""
    rows = re.findall(r"^\| ([a-z0-9]+) \| ([\d.]+) \|.*\| ([^|]+) \|[^|]*\|$", LEAD, re.MULTILINE)
    shown = Counter({(m, float(d)): len(top1.split(",")) for m, d, top1 in rows})
    runs = study_spec(None, {}).runs()
    assert shown == Counter((run.method, run.density) for run in runs)
    assert f"{len(runs)} runs of\n{runs[0].total_steps} steps" in README


def test_study_file(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(block("toml"))
    runs = study_spec(file, {}).runs()
    assert len(runs) == 3 * 5 + 4
    assert {run.contender for run in runs if run.method in ("rigl", "barter")} == {
        "rigl",
        "rigl:interval=5",
        "barter:transfer_multiplier=6",
        "barter:clone_state=inherit:transfer_multiplier=6",
    }


def test_own_training_loop(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict = {}
    exec(block("python"), names)
    exported, model = names["compact"], names["model"]
    assert sum(p.numel() for p in exported.parameters()) == sum(
        p.numel() for p in model.parameters()
    )
    assert names["method"].scheduled_transfers() == {"head": 1, "channel": 9}
    assert capsys.readouterr().out == ""


def test_commands_that_it_shows_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from tests.integration.test_cli import call

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "my-study.toml").write_text(block("toml"))
    shown = re.findall(r"^    bench (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert len(shown) >= 8
    for command in shown:
        arguments = command.replace("[STUDY]", "").split()
        if arguments[0] == "run" and "--gpu" not in arguments:
            arguments += ["--device", "cpu"]
        dry = ["--dry-run"] if arguments[0] == "run" and "--dry-run" not in arguments else []
        # What needs studies, a GPU or the real data sets: refused in one line, not unknown.
        # A gate would take minutes: refused for its threshold, after its options were understood.
        if arguments[0] == "check":
            dry = ["--max-slowdown", "0%"]
        needed = ("report", "check", "compare", "status", "pack", "--continue-from", "full")
        refused = any(word in arguments for word in needed)
        refused |= arguments[0] == "run" and "--gpu" in arguments  # a plan needs none
        expected = 2 if refused else 0
        assert call(monkeypatch, *arguments, *dry) == expected, command
        assert "No such" not in capsys.readouterr().err


def test_every_method_and_workload_is_named() -> None:
    for name in WORKLOADS:
        assert f"`{name}`" in README
    for name in METHODS:
        short = name.replace("barter-random", "")
        assert f"`{name}`" in README or f"`{short}`" in README, name
