"""The published data sets: where they come from, and how to tell that they are whole. No torch.

Sizes and checksums are those of the archives as their authors publish them. CIFAR-100's md5 is its
publisher's and torchvision's; the other sums are those that other projects have pinned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from bench.errors import UsageError

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Source:
    """A data set, its archive and what must be in it."""

    name: str
    title: str
    """For people."""
    url: str
    archive_bytes: int
    md5: str
    sha256: str
    folder: str
    """Top folder of the archive."""
    marker: str
    """A file by which that folder is recognised."""
    image_size: int
    """Height and width in pixels, as stored."""
    classes: int
    images: Mapping[Part, int]
    """Published images of each part; the validation split is taken from `train`."""

    @property
    def archive(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[1]


_ALL = (
    Source(
        name="cifar-100",
        title="CIFAR-100",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        archive_bytes=169_001_437,
        md5="eb9058c3a382ffc7106e4002c42a8d85",
        sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        folder="cifar-100-python",
        marker="train",
        image_size=32,
        classes=100,
        images=MappingProxyType({"train": 50_000, "test": 10_000}),
    ),
    Source(
        name="tiny-imagenet",
        title="Tiny-ImageNet",
        url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        archive_bytes=248_100_043,
        md5="90528d7ca1a48142e341f4ef8d21d0de",
        sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        folder="tiny-imagenet-200",
        marker="wnids.txt",
        image_size=64,
        classes=200,
        # Its own validation set is the test set: nobody has the labels of its test images.
        images=MappingProxyType({"train": 100_000, "test": 10_000}),
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _ALL}


def get_source(name: str) -> Source:
    """The data set of that name.

    Raises:
        UsageError: there is none; the message suggests the nearest name.
    """
    if name in SOURCES:
        return SOURCES[name]
    nearest = get_close_matches(name.lower(), SOURCES, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(SOURCES)}"
    raise UsageError(f"unknown data set {name!r}; {hint}")
