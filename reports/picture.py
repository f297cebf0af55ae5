"""What a picture of a report is. matplotlib is not loaded for it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Picture = tuple[str, str, "Figure | None", str]
"""File name without suffix, what it shows, the picture (None: no data), why there is none."""
