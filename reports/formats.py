"""Numbers to text, decided here once: 3 to 4 digits, intervals as `12.3 [11.9, 12.8]`."""

import math

from reports.statistics import Estimate
from reports.summary import MIB, Range

MOST_REACH = 10
"""An interval that reaches beyond this factor says that nothing is known: not how little."""
Units = tuple[tuple[float, str], ...]
"""From large to small: how much one of them is in the base unit, and its name."""
FLOPS: Units = (
    *((1e18, "EFLOPs"), (1e15, "PFLOPs"), (1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs")),
)
NOTHING = "–"  # noqa: RUF001 - the sign of an empty cell


def number(value: float, digits: int = 3) -> str:
    """At least `digits` significant digits, never fewer than the integer part has."""
    return _fixed(value, _decimals(value, digits))


def two_digits(value: float) -> str:
    """Of what is known roughly, such as a noise floor."""
    return number(value, 2)


def estimate(e: Estimate) -> str:
    """Value and interval with one more digit where the interval is narrow."""
    if e.low is None or e.high is None:
        return number(e.value)
    if e.log_scale and e.high > 0 and e.high > MOST_REACH * e.value:
        ends = number(e.value / MOST_REACH), number(e.value * MOST_REACH)
        return f"{number(e.value)} [<{ends[0]}, >{ends[1]}]"
    decimals = _decimals(e.value, 3)
    if 0 < (e.high - e.low) / 2 < 10.0**-decimals:
        decimals = _decimals(e.value, 4)
    return with_interval(e, lambda x: _fixed(x, decimals))


def percent(e: Estimate) -> str:
    """Two decimals; an interval of a share ends at 0 and 100."""
    return with_interval(e, lambda x: _fixed(min(max(x, 0.0), 100.0), 2))


def points(e: Estimate) -> str:
    """A signed difference, two decimals."""
    return with_interval(e, lambda x: f"{x:+.2f}")


def with_interval(e: Estimate, text) -> str:
    """`text(value) [text(low), text(high)]`, without brackets where there is no interval."""
    if e.low is None or e.high is None:
        return text(e.value)
    return f"{text(e.value)} [{text(e.low)}, {text(e.high)}]"


def integer(value: float) -> str:
    return f"{round(value):,}"


def share(value: float) -> str:
    """A percentage with one decimal."""
    return f"{value:.1f}"


def fitting(largest: float, units: Units) -> tuple[float, str]:
    """The largest unit that a value fills, else the smallest one."""
    return next((unit for unit in units if largest >= unit[0]), units[-1])


def mib(bytes_: float) -> str:
    return number(bytes_ / MIB, 4)


def millions(value: float) -> str:
    return number(value / 1e6, 4)


def spread(values: Range, text) -> str:
    """`low to high`, or the one value if both read the same."""
    low, high = text(values.low), text(values.high)
    return low if low == high else f"{low} to {high}"


def _decimals(value: float, digits: int) -> int:
    if not value or not math.isfinite(value):
        return digits - 1
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def _fixed(value: float, decimals: int) -> str:
    if not value:
        return "0"
    text = f"{value:,.{decimals}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text
