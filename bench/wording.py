"""Small things that make messages read like sentences."""


def count(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
