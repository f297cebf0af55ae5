"""Doctor: every promised check is there, and says no or limited where it must."""

import os
import warnings
from pathlib import Path

import pytest
import torch

from bench.measure import doctor
from bench.measure.doctor import Check, checks
from tests.unit.nvml_fixture import FakeNvml


def by_name(results: Path, nvml=None) -> dict[str, Check]:
    found = checks(results, nvml)
    assert len({check.name for check in found}) == len(found)
    assert all(check.status in ("yes", "no", "limited") and check.detail for check in found)
    return {check.name: check for check in found}


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 5.0, 5.0), raising=False)


def test_what_this_processor_can_measure(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = by_name(tmp_path, FakeNvml(driver=False))
    assert found["CPU timing"].status == "yes"
    assert found["idle machine"].status == "yes"
    for name in ("CUDA events", "allocator peaks", "TF32", "NVML power", "attention efficient"):
        assert found[name].status == "no", name
    assert found["attention flash"].status == found["attention math"].status == "yes"
    assert "no NVIDIA GPU" in found["CUDA events"].detail
    assert "accounted" in found["allocator peaks"].detail


def test_every_field_of_nvml_is_a_check_of_its_own(tmp_path):
    found = by_name(tmp_path, FakeNvml("NVIDIA L40", failing=("nvmlDeviceGetPowerUsage",)))
    assert found["NVML sm_clock"] == Check("NVML sm_clock", "yes", "1000 MHz")
    assert found["NVML power"] == Check("NVML power", "no", "unsupported")
    assert sum(name.startswith("NVML ") for name in found) == 15


def test_a_gpu_that_torch_does_not_see_is_mentioned(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = by_name(tmp_path, FakeNvml("a", "b", "c"))
    assert "knows 3 GPUs, this process may see 1" in found["CUDA events"].detail


@pytest.mark.parametrize(("capability", "tf32"), [((8, 0), "yes"), ((7, 5), "no"), ((9, 0), "yes")])
def test_a_gpu_measures_with_events_and_the_allocator(tmp_path, monkeypatch, capability, tf32):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    found = by_name(tmp_path, FakeNvml("card 0", "card 1"))
    assert found["CUDA events"] == Check("CUDA events", "yes", "card 0, card 1")
    assert found["allocator peaks"].status == "yes"
    assert found["attention efficient"].status == "yes"
    assert found["TF32"].status == tf32
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    assert by_name(tmp_path, FakeNvml("card 0"))["allocator peaks"].status == "limited"


def test_a_busy_machine_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.0, 0.0), raising=False)
    busy = by_name(tmp_path)["idle machine"]
    assert busy.status == "limited"
    assert "1.50" in busy.detail

    def none():
        raise OSError

    monkeypatch.setattr(os, "getloadavg", none, raising=False)
    assert by_name(tmp_path)["idle machine"].status == "no"


def test_more_threads_than_cores_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for threads, status in ((4, "yes"), (5, "limited")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert by_name(tmp_path)["threads"].status == status


def test_the_results_folder_is_tried_and_not_created(tmp_path, monkeypatch):
    new = tmp_path / "a" / "b"
    assert by_name(new)["results folder"] == Check("results folder", "yes", f"{new} can be created")
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.write_text("")
    assert by_name(file)["results folder"].status == "no"
    assert by_name(file / "below")["results folder"].status == "no"
    monkeypatch.chdir(tmp_path)
    assert by_name(Path("results"))["results folder"].status == "yes"

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    assert "Permission denied" in by_name(tmp_path)["results folder"].detail


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("2.10.9", "limited"),
        ("2.11.0", "yes"),
        ("2.14.1+cu130", "yes"),
        ("2.15.0a0", "limited"),
        ("3.0", "limited"),
        ("1.12", "limited"),
        ("unreadable", "limited"),
        (None, "no"),
    ],
)
def test_versions_outside_the_range_are_limited(tmp_path, monkeypatch, version, status):
    monkeypatch.setattr(doctor.environment, "version", lambda name: version)
    assert by_name(tmp_path)["version of torch"].status == status


def test_nothing_warns(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks(tmp_path)
