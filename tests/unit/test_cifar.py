"""CIFAR-100's pickles: the true format, damaged ones, and those that would run code."""

import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import CIFAR100

from bench.datasets import cifar
from bench.datasets.decoded import Target
from bench.datasets.sources import Source
from bench.datasets.unpickle import load_arrays
from bench.errors import UsageError
from tests.support.archives import labels, make_folder, pictures, python2_pickle, small_source

SOURCE = small_source("cifar-100", classes=100, train=200, test=100)


def read(folder: Path, source: Source = SOURCE) -> tuple[np.ndarray, np.ndarray]:
    images = np.zeros((source.images["test"], 32, 32, 3), dtype=np.uint8)
    target = Target(images, hashlib.sha256(), lambda _: None)
    return images, cifar.read(folder, source, "test", target)


def content(**changed: Any) -> dict[str, Any]:
    data = np.zeros((100, 3072), dtype=np.uint8)
    return {"data": data, "fine_labels": labels(100, 100), **changed}


def test_true_format(tmp_path: Path) -> None:
    images, found = read(make_folder(SOURCE, tmp_path))
    assert np.array_equal(images, pictures(100, 32, seed=1))
    assert found.tolist() == labels(100, 100)
    assert found.dtype == np.int64


def test_the_same_as_torchvision_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(SOURCE, tmp_path)

    def md5(name: str) -> str:
        return hashlib.md5((folder / name).read_bytes()).hexdigest()

    monkeypatch.setattr(CIFAR100, "test_list", [["test", md5("test")]])
    monkeypatch.setattr(CIFAR100, "train_list", [["train", md5("train")]])
    monkeypatch.setattr(CIFAR100, "meta", {**CIFAR100.meta, "md5": md5("meta")})
    expected = CIFAR100(str(tmp_path), train=False)
    images, found = read(folder)
    assert np.array_equal(images, expected.data)
    assert found.tolist() == expected.targets


@pytest.mark.parametrize("protocol", [2, 4])
def test_pickles_of_python_3_and_numpy_2(protocol: int, tmp_path: Path) -> None:
    (tmp_path / "test").write_bytes(pickle.dumps(content(), protocol=protocol))
    assert read(tmp_path)[1].tolist() == labels(100, 100)


class Evil:
    """Runs a command when it is read carelessly."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self._call = call, arguments

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "touch pwned"),
        Evil(eval, "open('pwned', 'w')"),
        Evil(exec, "open('pwned', 'w')"),
        Evil(getattr, np.ndarray, "tofile"),
        Evil(np.load, "x.npy"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_code_is_not_run(
    evil: Evil, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test").write_bytes(pickle.dumps(content(extra=evil), protocol=protocol))
    with pytest.raises(UsageError, match=r"it asks for .*, no data needs that"):
        read(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["test"]


def test_no_codec_but_that_of_old_bytes() -> None:
    assert load_arrays(pickle.dumps({"x": b"\xff\0"}, protocol=2)) == {"x": b"\xff\0"}
    harmful = b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x74R."
    with pytest.raises(pickle.UnpicklingError, match="codec 'zip'"):
        load_arrays(harmful)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (b"", "is no part of CIFAR-100"),
        (python2_pickle(content())[:-500], "is no part of CIFAR-100"),
        (b"<html>", "is no part of CIFAR-100"),
        (python2_pickle([1, 2]), "no 'data' and 'fine_labels'"),
        (python2_pickle({"data": 1}), "no 'data' and 'fine_labels'"),
        (python2_pickle(content(data=[1, 2])), "'data' are no table of bytes"),
        (python2_pickle(content(data=np.zeros((100, 3072)))), "'data' are no table of bytes"),
        (python2_pickle(content(data=np.zeros((100, 9), np.uint8))), "have 9 values, not 3,072"),
        (python2_pickle(content(fine_labels="abc")), "no list of whole numbers"),
        (python2_pickle(content(fine_labels=[0.5] * 100)), "no list of whole numbers"),
        (python2_pickle(content(fine_labels=[0] * 99)), "holds 100 images and 99 labels"),
        (
            python2_pickle(content(data=np.zeros((99, 3072), np.uint8))),
            "holds 99 images and 100 labels, CIFAR-100 has 100",
        ),
        (python2_pickle(content(fine_labels=labels(100, 90))), "has 90 classes, CIFAR-100 has 100"),
        (
            python2_pickle(content(fine_labels=[label + 1 for label in labels(100, 100)])),
            r"has 100 classes, CIFAR-100 has 100 \(0 to 99\)",
        ),
    ],
)
def test_damaged_or_other_content(written: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "test").write_bytes(written)
    with pytest.raises(UsageError, match=message) as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*test: No such file"):
        read(tmp_path)
