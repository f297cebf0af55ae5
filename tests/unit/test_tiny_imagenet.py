"""Tiny-ImageNet's folders: the true layout, and what can be wrong with it."""

import hashlib
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.datasets import tiny_imagenet
from bench.datasets.decoded import Target
from bench.datasets.sources import Part
from bench.errors import UsageError
from tests.support.archives import jpeg, labels, make_folder, pictures, small_source

SOURCE = small_source("tiny-imagenet", classes=5, train=20, test=10)
FIRST = "n01443537"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(SOURCE, tmp_path)


def read(folder: Path, part: Part) -> tuple[np.ndarray, np.ndarray]:
    images = np.zeros((SOURCE.images[part], 64, 64, 3), dtype=np.uint8)
    done: list[int] = []
    found = tiny_imagenet.read(folder, SOURCE, part, Target(images, hashlib.sha256(), done.append))
    assert sum(done) == len(images)
    return images, found


def test_classes_are_numbered_in_the_order_of_their_names(folder: Path) -> None:
    assert read(folder, "train")[1].tolist() == [label for label in range(5) for _ in range(4)]


def test_images_are_decoded_whole_and_grey_ones_made_rgb(folder: Path) -> None:
    images, _ = read(folder, "train")
    for row, image in enumerate(images):
        path = folder / "train" / f"n{1443537 + 17 * (row // 4):08d}" / "images"
        (expected,) = path.glob(f"*_{row % 4}.JPEG")
        assert np.array_equal(image, np.asarray(Image.open(expected).convert("RGB")))
    grey = images[::4]
    assert np.array_equal(grey[..., 0], grey[..., 2])
    # Close to what was painted: red is red, and the picture does not lie on its side.
    error = images[1].astype(int) - pictures(30, 64)[1]
    assert np.abs(error).mean() < 10


def test_the_validation_set_is_the_test_set(folder: Path) -> None:
    images, found = read(folder, "test")
    assert found.tolist() == labels(10, 5)
    expected = Image.open(BytesIO((folder / "val/images/val_3.JPEG").read_bytes()))
    assert np.array_equal(images[3], np.asarray(expected))


def _no_annotations(folder: Path) -> None:
    (folder / "val/val_annotations.txt").unlink()


def _strange_annotation(folder: Path) -> None:
    with (folder / "val/val_annotations.txt").open("a") as file:
        file.write("val_10.JPEG\tn99999999\t0\t0\t0\t0\n")


def _annotation_outside(folder: Path) -> None:
    with (folder / "val/val_annotations.txt").open("a") as file:
        file.write(f"../../x.JPEG\t{FIRST}\t0\t0\t0\t0\n")


def _annotation_without_image(folder: Path) -> None:
    (folder / "val/images/val_3.JPEG").unlink()


def _image_missing(folder: Path) -> None:
    (folder / f"train/{FIRST}/images/{FIRST}_2.JPEG").unlink()


def _class_folder_missing(folder: Path) -> None:
    shutil.rmtree(folder / f"train/{FIRST}")
    for number in range(4):
        twin = "n01443554"
        path = folder / f"train/{twin}/images"
        shutil.copy(path / f"{twin}_{number}.JPEG", path / f"more_{number}.JPEG")


def _class_too_few(folder: Path) -> None:
    (folder / "wnids.txt").write_text("n01443537\nn01443554\n")


def _no_class(folder: Path) -> None:
    (folder / "wnids.txt").write_text("n01443537\nn01443554\nn01443571\nn01443588\n../x\n")


def _cut_image(folder: Path) -> None:
    path = folder / f"train/{FIRST}/images/{FIRST}_2.JPEG"
    path.write_bytes(path.read_bytes()[:-300])


def _no_image(folder: Path) -> None:
    (folder / f"train/{FIRST}/images/{FIRST}_2.JPEG").write_bytes(b"<html>404</html>")


def _large_image(folder: Path) -> None:
    (folder / f"train/{FIRST}/images/{FIRST}_2.JPEG").write_bytes(jpeg(pictures(1, 65)[0]))


def _other_format(folder: Path) -> None:
    path = folder / f"train/{FIRST}/images/{FIRST}_2.JPEG"
    Image.fromarray(pictures(1, 64)[0]).save(path, "PNG")


@pytest.mark.parametrize(
    ("damage", "part", "message"),
    [
        (_no_annotations, "test", "cannot read .*val_annotations.txt"),
        (_strange_annotation, "test", "no image and class in 'val_10.JPEG.tn9"),
        (_annotation_outside, "test", "no image and class in '../../x.JPEG"),
        (_annotation_without_image, "test", "cannot read .*val_3.JPEG: No such file"),
        (_image_missing, "train", "holds 19 train images, Tiny-ImageNet has 20"),
        (_class_folder_missing, "train", "1 of 5 classes have no train images"),
        (_class_too_few, "train", "wnids.txt has 2 classes, Tiny-ImageNet has 5"),
        (_no_class, "train", "'../x' is no class of Tiny-ImageNet"),
        (_cut_image, "train", "_2.JPEG is no JPEG image that can be read"),
        (_no_image, "train", "_2.JPEG is no JPEG image that can be read"),
        (_large_image, "train", "_2.JPEG is 65x65, not 64x64"),
        (_other_format, "train", "_2.JPEG is no JPEG image that can be read"),
    ],
)
def test_damaged_or_incomplete(
    damage: Callable[[Path], None], part: Part, message: str, folder: Path
) -> None:
    damage(folder)
    with pytest.raises(UsageError, match=message) as caught:
        read(folder, part)
    assert "\n" not in str(caught.value)
