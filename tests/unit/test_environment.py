"""Environment: complete, plain, without the host's name, and right about its own commit."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.measure import environment
from bench.measure.environment import attention_backends, collect, device_name, git_commit, version
from tests.unit.nvml_fixture import FakeNvml

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]


def test_everything_is_plain_data_and_survives_json():
    plain = collect(CPU).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["torch_version"] == torch.__version__
    assert plain["threads"] == torch.get_num_threads()
    assert plain["device_name"] == plain["cpu_model"]
    for absent in ("gpu_model", "cuda_runtime", "cudnn"):
        assert plain[absent] is None


def test_the_name_of_the_host_is_not_recorded():
    recorded = json.dumps(collect(CPU).to_dict())
    assert platform.node()
    assert platform.node() not in recorded.replace(",", " ").replace('"', " ").split()


def test_a_cuda_device_is_described_by_its_own_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml("card"))
    got = collect(torch.device("cuda:1"))
    assert (got.device_name, got.gpu_model, got.driver) == ("card 1", "card 1", "570.1")
    assert got.cuda_runtime == "13.0"
    assert got.cpu_model == device_name(CPU)


def test_without_a_driver_there_is_no_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(driver=False))
    assert collect(CPU).driver is None


def test_settings_that_change_speed_are_kept_and_others_are_not(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HOME_OF_SECRETS", "x")
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    settings = collect(CPU).settings
    assert settings["OMP_NUM_THREADS"] == "3"
    assert "HOME_OF_SECRETS" not in settings
    assert "KMP_BLOCKTIME" not in settings


def test_tf32_is_read_where_torch_forbids_to_read_the_old_switch():
    """In a fresh process: torch allows only one of its two ways in each."""
    program = (
        "import torch; torch.backends.cuda.matmul.fp32_precision = 'tf32';"
        "from bench.measure.environment import collect;"
        "e = collect(torch.device('cpu')); print(e.tf32, e.float32_matmul_precision)"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.split() == ["True", "tf32"]


def test_tf32_follows_the_old_switch():
    before = torch.get_float32_matmul_precision()
    try:
        for precision, allowed in (("high", True), ("highest", False)):
            torch.set_float32_matmul_precision(precision)
            assert collect(CPU).tf32 is allowed
            assert collect(CPU).float32_matmul_precision == precision
    finally:
        torch.set_float32_matmul_precision(before)


def test_attention_backends_are_those_switched_on():
    before = torch.backends.cuda.flash_sdp_enabled()
    try:
        torch.backends.cuda.enable_flash_sdp(False)
        assert "flash" not in attention_backends()
        torch.backends.cuda.enable_flash_sdp(True)
        assert attention_backends()[0] == "flash"
    finally:
        torch.backends.cuda.enable_flash_sdp(before)


def test_versions_come_from_the_installation():
    found = version("torch")
    assert found
    assert torch.__version__.startswith(found)
    assert version("no-such-package-here") is None


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path) -> Path:
    git(tmp_path, "init", "-q")
    package = tmp_path / "bench" / "measure"
    package.mkdir(parents=True)
    module = package / "environment.py"
    module.write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return module


def test_a_clean_checkout_gives_its_commit(checkout):
    commit = git_commit(checkout)
    assert commit == git(checkout.parent, "rev-parse", "HEAD")
    records = checkout.parents[2] / "results"
    records.mkdir()
    (records / "runs.parquet").write_text("x")
    assert git_commit(checkout) == commit, "records are no change of the code"


def test_changed_and_new_code_is_dirty(checkout):
    commit = git_commit(checkout)
    new = checkout.with_name("new.py")
    new.write_text("")
    assert git_commit(checkout) == f"{commit}+dirty"
    new.unlink()
    assert git_commit(checkout) == commit
    checkout.write_text("a = 2\n")
    assert git_commit(checkout) == f"{commit}+dirty"


def test_a_copy_inside_another_checkout_has_no_commit(checkout, tmp_path):
    installed = checkout.parents[2] / "venv" / "environment.py"
    installed.parent.mkdir()
    installed.write_text("")
    assert git_commit(installed) is None


def test_no_checkout_or_no_git_is_no_error(tmp_path, monkeypatch, checkout):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(checkout) is None


def test_a_git_directory_of_a_hook_does_not_mislead(checkout, tmp_path, monkeypatch):
    commit = git_commit(checkout)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert git_commit(checkout) == commit


def test_the_processor_has_a_name():
    assert environment.cpu_name().strip()
