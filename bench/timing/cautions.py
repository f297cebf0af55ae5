"""Why the figures of a run that was timed in blocks deserve caution, from its blocks. No torch.

A launch is judged as a whole: what disturbs a single one is not to vanish among the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from bench.measure.observed import Observed
from bench.reason_codes import FEWEST_LAUNCHES, TOO_FEW_LAUNCHES
from bench.run_rows import Row
from bench.validity import machine_codes


def cautions(device: str, blocks: Sequence[Row], observed: Mapping[int, Observed]) -> list[str]:
    """Codes of a run: those of its blocks, those of any launch, and too few launches.

    Args:
        device: kind that the steps ran on.
        blocks: its rows of the table, of all launches.
        observed: by launch, what was seen of the GPU in these blocks.
    """
    launches = _by_launch(blocks)
    codes = [code for row in blocks for code in row["reason_codes"] or ()]
    tops = [top for seen in observed.values() if (top := seen.top_sm_clock_mhz) is not None]
    for launch, rows in launches.items():
        seen = observed.get(launch, Observed())
        codes += machine_codes(device, seen, foreign_cpu_cores(rows), max(tops, default=None))
    if len(launches) < FEWEST_LAUNCHES:
        codes.append(TOO_FEW_LAUNCHES)
    return list(dict.fromkeys(codes))


def foreign_cpu_cores(blocks: Iterable[Row]) -> float | None:
    """Cores that other programs used, mean over blocks; None if no block knows."""
    # A block has one row per segment, and each repeats what was seen of the block.
    cores = {(row["role"], row["launch"], row["round"]): row["foreign_cpu_cores"] for row in blocks}
    known = [value for value in cores.values() if value is not None]
    return fmean(known) if known else None


def _by_launch(blocks: Iterable[Row]) -> Mapping[int, list[Row]]:
    launches: dict[int, list[Row]] = defaultdict(list)
    for row in blocks:
        launches[row["launch"]].append(row)
    return launches
