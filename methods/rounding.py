"""Exact rational arithmetic for densities, budgets and schedules.

A float such as 0.3 is a little less than three tenths; budgets that must be right to the
unit are therefore computed on the decimal number that the user wrote.
"""

from fractions import Fraction
from math import floor


def exact(value: float | int | str | Fraction) -> Fraction:
    """The decimal number that `value` prints as (0.3 -> 3/10), as an exact fraction."""
    return value if isinstance(value, Fraction) else Fraction(str(value))


def round_half_up(value: Fraction) -> int:
    """Nearest integer; halves go up (specification, section 3)."""
    return floor(value + Fraction(1, 2))
