"""Random numbers as pure functions of a seed and a purpose.

No generator outlives the draw that it was made for. So nothing random needs saving in a
checkpoint, the order of draws cannot matter, and no global random state is touched.
"""

from zlib import crc32

import numpy as np
import torch


def _sequence(seed: int, *purpose: str | int) -> np.random.SeedSequence:
    words = (crc32(part.encode()) if isinstance(part, str) else part for part in purpose)
    return np.random.SeedSequence([seed, *words])


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A fresh generator for one purpose, e.g. `(seed, "initial units", "head", layer)`."""
    return np.random.default_rng(_sequence(seed, *purpose))


def torch_generator(device: torch.device, seed: int, *purpose: str | int) -> torch.Generator:
    """The same for draws that must happen on `device` (no host synchronisation)."""
    state = int(_sequence(seed, *purpose).generate_state(1, np.uint64)[0])
    return torch.Generator(device=device).manual_seed(state >> 1)
