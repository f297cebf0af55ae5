"""Reads pickles that may come from anywhere: arrays, containers, numbers and text, nothing else.

A pickle is a program. Of all that one can call, only what numpy needs to rebuild an array is here.
"""

import pickle
from io import BytesIO
from typing import Any

import numpy as np

_REBUILD = np.empty(0).__reduce__()[0]


def _bytes(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes into an old pickle; no other codec is needed, so none is there."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}")
    return text.encode("latin1")


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy._core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _bytes,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            asked = f"{module_name}.{global_name}"
            raise pickle.UnpicklingError(f"it asks for {asked}, no data needs that") from None


def load_arrays(content: bytes) -> Any:
    """What the pickle holds; text of Python 2 is read as latin-1.

    Raises:
        pickle.UnpicklingError: it is damaged, or asks for anything but arrays and containers.
    """
    try:
        return _ArraysOnly(BytesIO(content), encoding="latin1").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # a damaged program fails in any way it likes
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
