"""Devices: exact model names, CUDA_VISIBLE_DEVICES as CUDA reads it, and refusals in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.measure.devices import (
    Gpu,
    Machine,
    ResolvedDevice,
    cpu_name,
    is_model,
    physical_gpus,
    resolve,
    visible_gpus,
)
from tests.unit.nvml_fixture import FakeNvml

GIB = 2**30
ROOT = Path(__file__).parents[2]


def gpus(*names: str) -> list[Gpu]:
    return [Gpu(name, f"GPU-{i}0-{i}", memory_bytes=16 * GIB) for i, name in enumerate(names)]


def machine(*names: str, problem: str | None = None, mps: bool = False, **environment: str):
    return Machine(lambda: gpus(*names), lambda: problem, lambda: mps, dict(environment))


@pytest.mark.parametrize(
    ("wanted", "product"),
    [
        ("L40", "NVIDIA L40"),
        ("l40s", "NVIDIA L40S"),
        ("H200", "NVIDIA H200"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("A100", "NVIDIA A100 80GB PCIe"),
        ("a100 80gb", "NVIDIA A100-SXM4-80GB"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("H100 NVL", "NVIDIA H100 NVL"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("4090", "NVIDIA GeForce RTX 4090"),
        ("nvidia geforce rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("4090 Laptop GPU", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        ("V100", "Tesla V100-SXM2-16GB"),
        ("RTX 6000", "Quadro RTX 6000"),
        ("RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
    ],
)
def test_names_that_are_this_model(wanted, product):
    assert is_model(product, wanted)


@pytest.mark.parametrize(
    ("wanted", "product"),
    [
        ("L40", "NVIDIA L40S"),
        ("L4", "NVIDIA L40"),
        ("L40S", "NVIDIA L40"),
        ("A10", "NVIDIA A10G"),
        ("A100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
        ("A100", "NVIDIA A100-SXM4-40GB (MIG mode)"),
        ("A100 80GB", "NVIDIA A100-SXM4-40GB"),
        ("H100 PCIe", "NVIDIA H100 80GB HBM3"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 D"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        ("RTX 3060", "NVIDIA GeForce RTX 3060 Ti"),
        ("GTX 4090", "NVIDIA GeForce RTX 4090"),
        ("RTX 6000", "NVIDIA RTX 6000 Ada Generation"),
        ("6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("H200", "NVIDIA GH200 480GB"),
        ("RTX", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA", "NVIDIA H200"),
        ("", "NVIDIA H200"),
    ],
)
def test_names_that_are_another_model(wanted, product):
    assert not is_model(product, wanted)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, "abcd"),
        ("", ""),
        ("-1", ""),
        ("NoDevFiles", ""),
        ("2", "c"),
        ("3,0", "da"),
        (" 1 , 2 ", "bc"),
        ("1,7,2", "b"),
        ("1,-1,2", "b"),
        ("0,2,0", ""),
        ("GPU-20-2", "c"),
        ("GPU-3,GPU-0", "da"),
        ("GPU-", ""),
        ("GPU-9,GPU-1", ""),
        ("GPU-1,0", "b"),
        ("0,GPU-1", "a"),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(visible, expected):
    names = [gpu.name for gpu in visible_gpus(gpus("a", "b", "c", "d"), visible)]
    assert "".join(names) == expected


def test_a_mig_slice_is_no_gpu_of_its_model():
    (only,) = visible_gpus(gpus("NVIDIA A100-SXM4-40GB"), "MIG-123")
    assert only.uuid == "MIG-123"
    assert not is_model(only.name, "A100")


def test_the_first_visible_gpu_of_that_model_is_taken_by_its_cuda_index():
    names = ("NVIDIA L40S", "NVIDIA L40", "NVIDIA H200", "NVIDIA L40")
    found = machine(*names)
    assert resolve("auto", "L40", found) == ResolvedDevice("cuda", 1, "NVIDIA L40", "GPU-10-1")
    assert found.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    reordered = machine(*names, CUDA_VISIBLE_DEVICES="GPU-20,GPU-00,GPU-30")
    assert resolve("cuda", "L40", reordered) == ResolvedDevice("cuda", 2, "NVIDIA L40", "GPU-30-3")
    numbered = machine(*names, CUDA_VISIBLE_DEVICES="3,2", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert resolve("cuda", "h200", numbered) == ResolvedDevice("cuda", 1, "NVIDIA H200", "GPU-20-2")


def refusal(*arguments) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_model_that_is_not_there_lists_what_is_and_suggests_the_cpu():
    def unwanted():
        raise AssertionError("a refusal must not import torch")

    there = Machine(lambda: gpus("NVIDIA L40S", "NVIDIA L40S"), unwanted, unwanted, {})
    message = refusal("auto", "L40", there)
    assert message == (
        "no GPU that is exactly 'L40' is visible (visible: 2 x NVIDIA L40S); use --device cpu"
    )
    nothing = Machine(list, unwanted, unwanted, {})
    for arguments in (("cuda", None), ("cuda", "L40"), ("auto", "L40")):
        message = refusal(*arguments, nothing)
        assert "no NVIDIA GPU or no driver" in message
        assert "--device cpu" in message


def test_hidden_gpus_are_reported_as_hidden():
    message = refusal("cuda", None, machine("NVIDIA H200", CUDA_VISIBLE_DEVICES=""))
    assert "CUDA_VISIBLE_DEVICES='' hides 1" in message


def test_numbers_among_unlike_gpus_are_ambiguous_without_a_fixed_order():
    names = ("NVIDIA L40", "NVIDIA H200")
    message = refusal("cuda", "L40", machine(*names, CUDA_VISIBLE_DEVICES="0"))
    assert "ambiguous" in message
    assert "PCI_BUS_ID" in message
    alike = machine("NVIDIA L40", "NVIDIA L40", CUDA_VISIBLE_DEVICES="1")
    assert resolve("cuda", "L40", alike).uuid == "GPU-10-1"


def test_without_a_name_the_gpu_with_most_memory_is_taken():
    listed = [Gpu("GT 710", "GPU-a", GIB), Gpu("A", "GPU-b", 24 * GIB), Gpu("B", "GPU-c", 24 * GIB)]
    for device in ("auto", "cuda"):
        found = Machine(lambda: listed, lambda: None, lambda: False, {})
        assert resolve(device, None, found) == ResolvedDevice("cuda", 1, "A", "GPU-b")


def test_auto_falls_back_where_cuda_and_then_mps_cannot_be_used():
    broken = "torch cannot use the driver"
    cpu = ResolvedDevice("cpu", None, cpu_name())
    assert resolve("auto", None, machine()) == cpu
    assert resolve("auto", None, machine("NVIDIA H200", problem=broken)) == cpu
    assert resolve("auto", None, machine("NVIDIA H200", CUDA_VISIBLE_DEVICES="")) == cpu
    assert resolve("auto", None, machine(mps=True)).kind == "mps"
    assert resolve("auto", None, machine("NVIDIA H200", mps=True)).kind == "cuda"
    assert refusal("cuda", None, machine("NVIDIA H200", problem=broken)).startswith(broken)
    assert refusal("auto", "H200", machine("NVIDIA H200", problem=broken)).startswith(broken)


def test_explicit_kinds():
    found = machine("NVIDIA H200", mps=True)
    assert resolve("cpu", None, found) == ResolvedDevice("cpu", None, cpu_name())
    assert resolve("mps", None, found).kind == "mps"
    assert "CUDA_DEVICE_ORDER" not in found.environment
    assert "no MPS device" in refusal("mps", None, machine())


def test_words_that_are_no_device():
    assert refusal("gpu", None, machine()) == "unknown device 'gpu'; known: auto, cpu, cuda, mps"
    assert "--gpu 'L40' needs --device cuda" in refusal("cpu", "L40", machine("NVIDIA L40"))
    assert "exactly ' '" in refusal("cuda", " ", machine("NVIDIA L40"))


def test_gpus_are_listed_through_nvml():
    nvml = FakeNvml("NVIDIA A100-SXM4-40GB", "NVIDIA L40", mig=(0,))
    listed = physical_gpus(nvml)
    assert [gpu.name for gpu in listed] == ["NVIDIA A100-SXM4-40GB (MIG mode)", "NVIDIA L40"]
    assert listed[1] == Gpu("NVIDIA L40", "GPU-10000000-aaaa", 20 * GIB)
    assert nvml.sessions == 0, "every session is closed"
    assert physical_gpus(FakeNvml(driver=False)) == []
    assert physical_gpus(FakeNvml("NVIDIA L40", failing=("nvmlDeviceGetCount",))) == []
    partly = ("nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID")
    assert physical_gpus(FakeNvml("NVIDIA L40", failing=partly)) == [Gpu("NVIDIA L40", "", 0)]


def test_nothing_here_imports_torch():
    program = (
        "import sys; from bench.errors import UsageError; from bench.measure.devices import *;"
        "resolve('cpu')\n"
        "try: resolve('gpu')\n"
        "except UsageError: sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
