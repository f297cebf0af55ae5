"""Small things that make messages read like sentences."""

from rich.console import Console

from bench.errors import UsageError


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 run`, `2 runs`; another plural than with -s has to be given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def flops(number: float) -> str:
    """`1.24 TFLOPs`."""
    units = (("PFLOPs", 1e15), ("TFLOPs", 1e12), ("GFLOPs", 1e9), ("MFLOPs", 1e6))
    name, unit = next((u for u in units if number >= u[1]), units[-1])
    return f"{number / unit:.3g} {name}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def fraction(option: str, text: str) -> float:
    """`3%` and `0.03` alike. Raises UsageError for anything that is not between 0 and 1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise UsageError(f"{option} takes a percentage such as 3%, not {text!r}") from None
    if not 0 < value < 1:
        raise UsageError(f"{option} is {text}: between 0% and 100%, both excluded, it must be")
    return value


def percentage(option: str, text: str) -> float:
    """`90` and `90%` alike, as 90.0. Raises UsageError for anything that is not above 0 and up to
    100, and for what may be a fraction."""
    number = text.removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        raise UsageError(f"{option} takes a percentage such as 90%, not {text!r}") from None
    if not 0 < value <= 100:
        raise UsageError(f"{option} is {text}: above 0% and at most 100% it must be")
    if value <= 1 and number == text:
        raise UsageError(f"{option} is {text}: say {text}% or {100 * value:g}%")
    return value


def say(console: Console, text: str) -> None:
    """Print a line as it is, however long."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
