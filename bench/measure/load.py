"""How much processor other programs use, and how much memory is left. No torch.

Linux only: elsewhere everything here answers None.
"""

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")


class ForeignLoad:
    """Cores that other programs kept busy on average since this was made.

    Linux only: elsewhere `cores()` is None. Counted is all processor time of the machine, less
    that of this process and of those that it has waited for (a compiler); the watching process and
    its display count as foreign.
    """

    def __init__(self, stat: Path = _STAT) -> None:
        self._stat = stat
        self._start = self._sample()

    def cores(self) -> float | None:
        """Average number of foreign cores, not below 0; None where it cannot be known."""
        now = self._sample()
        if self._start is None or now is None or now[0] <= self._start[0]:
            return None
        elapsed, busy, own = (b - a for a, b in zip(self._start, now, strict=True))
        return max(0.0, (busy - own) / elapsed)

    def _sample(self) -> tuple[float, float, float] | None:
        """Seconds: wall clock, busy time of all cores, processor time of this process
        and of its children that have ended."""
        try:
            first = self._stat.read_text().splitlines()[0].split()[1:9]
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first)
            ticks_per_s = os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError, AttributeError):
            return None
        # What the host stole is others' time too.
        busy = (user + nice + system + irq + softirq + steal) / ticks_per_s
        children = os.times()
        own = time.process_time() + children.children_user + children.children_system
        return time.monotonic(), busy, own


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Memory that new processes can have without swapping."""
    return _kibibytes(meminfo, "MemAvailable:")


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """Memory of this process alone: what it shares with others since a fork does not count."""
    return _kibibytes(status, "RssAnon:")


def _kibibytes(file: Path, key: str) -> int | None:
    try:
        for line in file.read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    return None
