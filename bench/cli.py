"""Placeholder replaced below."""


def main() -> None:
    raise SystemExit(2)
