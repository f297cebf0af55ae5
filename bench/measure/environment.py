"""Everything about the machine that a figure may depend on. The host's name is no part of it."""

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from bench.measure import nvml as nvml_module
from bench.measure.devices import cpu_name

_SETTINGS = (
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE", "OMP_WAIT_POLICY"),
    *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS", "MKL_DYNAMIC"),
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"),
    *("CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "TIMM_FUSED_ATTN", "MALLOC_ARENA_MAX"),
)
"""Variables of the process's environment that change speed, memory or arithmetic."""


@dataclass(frozen=True)
class Environment:
    """The machine and its settings; None where something does not exist here."""

    device_name: str
    cpu_model: str
    cpu_capability: str  # the instruction set that torch chose
    cpu_count: int | None
    usable_cpu_count: int | None  # what this process may use
    cpu_governor: str | None  # who sets the clock: anything but "performance" may vary it
    gpu_model: str | None
    driver: str | None
    cuda_runtime: str | None
    cudnn: int | None
    python: str
    operating_system: str
    torch_version: str
    torchvision_version: str | None
    timm_version: str | None
    numpy_version: str | None
    threads: int
    interop_threads: int
    settings: dict[str, str]
    tf32: bool  # in matrix products
    tf32_convolutions: bool
    float32_matmul_precision: str
    cudnn_benchmark: bool
    deterministic_algorithms: bool
    attention_backends: tuple[str, ...]
    git_commit: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"attention_backends": list(self.attention_backends)}


def collect(device: torch.device) -> Environment:
    """The environment of runs on `device`, with the settings that hold now."""
    on_cuda = device.type == "cuda"
    return Environment(
        device_name=device_name(device),
        cpu_model=cpu_name(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_count=os.cpu_count(),
        usable_cpu_count=_usable_cpu_count(),
        cpu_governor=_cpu_governor(),
        gpu_model=device_name(device) if on_cuda else None,
        driver=_driver(),
        cuda_runtime=torch.version.cuda if on_cuda else None,
        cudnn=torch.backends.cudnn.version() if on_cuda else None,
        python=platform.python_version(),
        operating_system=f"{platform.system()} {platform.release()} {platform.machine()}",
        torch_version=str(torch.__version__),  # its own type would load torch in the watcher
        torchvision_version=version("torchvision"),
        timm_version=version("timm"),
        numpy_version=version("numpy"),
        threads=torch.get_num_threads(),
        interop_threads=torch.get_num_interop_threads(),
        settings={name: os.environ[name] for name in _SETTINGS if name in os.environ},
        tf32=_is_tf32(torch.backends.cuda.matmul),
        tf32_convolutions=_is_tf32(getattr(torch.backends.cudnn, "conv", torch.backends.cudnn)),
        float32_matmul_precision=_matmul_precision(),
        cudnn_benchmark=torch.backends.cudnn.benchmark,
        deterministic_algorithms=torch.are_deterministic_algorithms_enabled(),
        attention_backends=attention_backends(),
        git_commit=git_commit(Path(__file__)),
    )


def device_name(device: torch.device) -> str:
    """Model of the GPU, or of the processor (on MPS they are one chip)."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def version(distribution: str) -> str | None:
    """Installed version of a package, without importing it; None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def attention_backends() -> tuple[str, ...]:
    """Backends that scaled_dot_product_attention may choose from; the device decides which run."""
    enabled = {
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
    }
    return tuple(name for name, on in enabled.items() if on)


def _is_tf32(settings: Any) -> bool:
    # torch refuses to read the old switch once the new one has been set: ask the new one first.
    precision = getattr(settings, "fp32_precision", None)
    return settings.allow_tf32 if precision is None else precision == "tf32"


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set through the new interface only
        return str(torch.backends.cuda.matmul.fp32_precision)


def _usable_cpu_count() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cpu_governor() -> str | None:
    try:
        return Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text().strip()
    except OSError:
        return None


def _driver() -> str | None:
    with nvml_module.session() as nvml:
        if nvml is None:
            return None
        answer = nvml_module.ask(nvml, "nvmlSystemGetDriverVersion")
        return None if answer is None else nvml_module.text(answer)


def git_commit(file: Path) -> str | None:
    """Commit of the checkout that `file` belongs to, `+dirty` if its project has local changes.

    None if `file` is not under version control (an installed copy may lie inside some other
    project's checkout), and where git is missing or refuses.
    """
    folder = file.resolve().parent
    if _git(folder, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit = _git(folder, "rev-parse", "HEAD")
    # Only code decides: records and reports written meanwhile do not.
    changes = _git(folder, "status", "--porcelain", "--", ":/*.py", ":/*.toml")
    return f"{commit}+dirty" if commit and changes else commit or None


def _git(folder: Path, *arguments: str) -> str | None:
    # A hook's GIT_DIR would point to another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
