"""What a device cannot do of what an Execution asks: refused before anything runs."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec

from bench.errors import UsageError
from bench.execution import Execution
from bench.measure.devices import ResolvedDevice

_ATTENTIONS = {"cpu": ("auto", "math", "flash"), "mps": ("auto", "math")}
_HALF_ONLY = ("flash", "cudnn")
_COMPILERS = ("g++", "c++", "clang++")
_TRIAL_TIMEOUT_S = 120


def refuse_impossible(execution: Execution, device: ResolvedDevice) -> None:
    """Raise UsageError, in one line, for what the device cannot do.

    What only torch knows is tried in a process of its own: this one never loads torch.
    """
    where = f"{device.kind} ({device.name})"
    cores = os.cpu_count()
    if execution.threads and cores and execution.threads > cores:
        raise UsageError(f"--threads {execution.threads}: this machine has {cores} cores")
    if execution.tf32 and device.kind != "cuda":
        raise UsageError(f"--tf32: there is no TF32 on {where}")
    if execution.cuda_graphs and device.kind != "cuda":
        raise UsageError(f"--cuda-graphs: there are no CUDA graphs on {where}")
    able = _ATTENTIONS.get(device.kind)
    if able and execution.attention not in able:
        raise UsageError(f"--attention {execution.attention}: {where} has {', '.join(able)}")
    if device.kind == "cuda" and execution.attention in _HALF_ONLY and execution.autocast == "none":
        raise UsageError(
            f"--attention {execution.attention} computes in half precision on a GPU: add"
            " --autocast bf16 or fp16"
        )
    if execution.compile and not _has_compiler(device.kind):
        need = "the package triton" if device.kind == "cuda" else "a C++ compiler, as g++"
        raise UsageError(f"--compile needs {need}, which is not here")
    if execution.autocast != "none" or (device.kind == "cuda" and _asks_of_gpu(execution)):
        _try(execution, device, where)


def _asks_of_gpu(execution: Execution) -> bool:
    return execution.attention != "auto" or bool(execution.tf32)


def _has_compiler(kind: str) -> bool:
    if kind == "cuda":
        return find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), *_COMPILERS))


def _try(execution: Execution, device: ResolvedDevice, where: str) -> None:
    name = device.kind if device.index is None else f"{device.kind}:{device.index}"
    command = [sys.executable, "-m", "bench.trial", name, json.dumps(asdict(execution))]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TRIAL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{where} gave no answer within {_TRIAL_TIMEOUT_S} s") from None
    if answer.returncode:
        lines = (answer.stdout or answer.stderr).strip().splitlines()
        reason = lines[-1] if lines else f"exit code {answer.returncode}"
        raise UsageError(f"{execution.beside(Execution())} cannot be had on {where}: {reason}")
