"""What a device cannot do is refused in one line, by rule or by trial."""

import subprocess
from typing import Any

import pytest
import torch

from bench import capability, trial
from bench.capability import refuse_impossible
from bench.errors import UsageError
from bench.execution import DEFAULT, Execution
from bench.measure.devices import ResolvedDevice

CPU = ResolvedDevice("cpu", None, "Example CPU")
GPU = ResolvedDevice("cuda", 1, "Example GPU")
MPS = ResolvedDevice("mps", None, "Example chip")


def answered(monkeypatch: pytest.MonkeyPatch, code: int, printed: str) -> list[list[str]]:
    """Make every trial end so; the commands that were tried are noted."""
    tried: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess:
        tried.append(command)
        return subprocess.CompletedProcess(command, code, printed, "")

    monkeypatch.setattr(subprocess, "run", run)
    return tried


@pytest.mark.parametrize(
    ("execution", "device", "message"),
    [
        (Execution(tf32=True), CPU, "--tf32: there is no TF32 on cpu (Example CPU)"),
        (Execution(attention="cudnn"), CPU, "--attention cudnn: cpu (Example CPU) has auto, math"),
        (Execution(attention="efficient"), CPU, "--attention efficient"),
        (Execution(cuda_graphs=True), CPU, "--cuda-graphs: there are no CUDA graphs on cpu (Exam"),
        (Execution(cuda_graphs=True), MPS, "--cuda-graphs: there are no CUDA graphs on mps (Exam"),
        (Execution(attention="flash"), MPS, "--attention flash: mps (Example chip) has auto, math"),
        (Execution(attention="flash"), GPU, "add --autocast bf16 or fp16"),
        (Execution(attention="cudnn"), GPU, "--attention cudnn computes in half precision"),
    ],
)
def test_refused_by_rule(
    execution: Execution, device: ResolvedDevice, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = answered(monkeypatch, 0, "")
    with pytest.raises(UsageError) as caught:
        refuse_impossible(execution, device)
    assert message in str(caught.value)
    assert not tried


@pytest.mark.parametrize(("device", "need"), [(CPU, "a C++ compiler"), (GPU, "triton")])
def test_compilation_needs_a_compiler(
    device: ResolvedDevice, need: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capability.shutil, "which", lambda name: None)
    monkeypatch.setattr(capability, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=f"--compile needs .*{need.replace('+', '.')}"):
        refuse_impossible(Execution(compile=True), device)


def test_what_only_torch_knows_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = answered(monkeypatch, 1, "a first line\nNo available kernel.\n")
    for execution in (
        Execution(autocast="bf16", attention="flash"),
        Execution(attention="efficient"),
        Execution(tf32=True),
    ):
        with pytest.raises(UsageError, match=r"cannot be had on cuda \(Example GPU\): No availa"):
            refuse_impossible(execution, GPU)
    assert [command[3] for command in tried] == ["cuda:1"] * 3
    with pytest.raises(UsageError, match="autocast fp16 cannot be had on cpu"):
        refuse_impossible(Execution(autocast="fp16"), CPU)


def test_what_every_device_can_do_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = answered(monkeypatch, 1, "never")
    refuse_impossible(DEFAULT, GPU)
    refuse_impossible(Execution(cuda_graphs=True, recompute="norm"), GPU)
    refuse_impossible(Execution(attention="flash", optimizer="loop", threads=2), CPU)
    assert not tried


def test_a_trial_says_why_not() -> None:
    device = torch.device("cpu")
    assert trial.why_not(Execution(autocast="bf16"), device) == ""
    assert "backend" in trial.why_not(Execution(attention="cudnn"), device)


def test_a_trial_is_a_process_that_answers() -> None:
    refuse_impossible(Execution(autocast="bf16"), CPU)
