"""A gate's outcome for people, for a job summary and for programs. No torch."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.errors import UsageError
from bench.files import cannot, write_json_atomically, write_text_atomically
from bench.gate.check import FINE, NOT_MEASURED, REGRESSION, UNDECIDED, Outcome
from bench.wording import count

WORDS = {
    FINE: "fine",
    REGRESSION: "regression",
    UNDECIDED: "could not decide",
    NOT_MEASURED: "could not measure",
}
_HEADS = ("contender", "slow-down [90%]", "launches", "verdict", "measured again")


def show(outcome: Outcome, max_slowdown: float, console: Console) -> None:
    """Tables on the terminal."""
    if outcome.changes:
        table = Table(*_HEADS, title="Step time against the frozen loop, now over baseline")
        for row in _rows(outcome):
            table.add_row(*row)
        console.print(table)
    if outcome.counts:
        table = Table("contender", "segment", "count", "baseline", "now", title="Exact counts")
        for c in outcome.counts:
            table.add_row(c.label, c.segment, c.count, _number(c.before), _number(c.now))
        console.print(table)
    for text in _notes(outcome, max_slowdown):
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def markdown(outcome: Outcome, max_slowdown: float) -> str:
    """For a job summary."""
    parts = [f"### bench check: {WORDS[outcome.code]}", ""]
    if outcome.changes:
        parts += [*_markdown_table(_HEADS, _rows(outcome)), ""]
    if outcome.counts:
        rows = [
            (c.label, c.segment, c.count, _number(c.before), _number(c.now)) for c in outcome.counts
        ]
        parts += [*_markdown_table(("contender", "segment", "count", "baseline", "now"), rows), ""]
    return "\n".join([*parts, *(f"* {text}" for text in _notes(outcome, max_slowdown))]) + "\n"


def as_json(outcome: Outcome, max_slowdown: float) -> dict[str, Any]:
    """Everything, for programs."""
    floor = outcome.noise_floor
    return {
        "code": outcome.code,
        "result": WORDS[outcome.code],
        "reason": outcome.reason,
        "max_slowdown": max_slowdown,
        "noise_floor": floor if floor is not None and isfinite(floor) else None,
        "changes": [_change(change) for change in outcome.changes],
        "confirmation": [_change(change) for change in outcome.confirmation],
        "counts": [vars(change) | {"is_worse": change.is_worse} for change in outcome.counts],
        "not_compared": list(outcome.not_compared),
    }


def action_benchmark(outcome: Outcome) -> list[dict[str, Any]]:
    """For github-action-benchmark's tool `customSmallerIsBetter`."""
    if outcome.now is None:
        return []
    return [
        {
            "name": f"{change.label}: step time over the frozen loop's, now over baseline",
            "unit": "ratio",
            "value": 1 + change.slowdown,
            "range": f"{1 + change.low:.4f} to {1 + change.high:.4f}",
            "extra": f"{change.launches} launches",
        }
        for change in outcome.changes
    ]


def write(outcome: Outcome, max_slowdown: float, folder: Path, summary: str | None) -> list[Path]:
    """All files of a gate into a folder; `summary` is a job's summary file, appended to.

    Raises:
        UsageError: a file cannot be written.
    """
    text = markdown(outcome, max_slowdown)
    paths = [folder / name for name in ("check.md", "check.json", "action-benchmark.json")]
    write_text_atomically(paths[0], text)
    write_json_atomically(paths[1], as_json(outcome, max_slowdown))
    write_json_atomically(paths[2], action_benchmark(outcome))
    if summary:
        paths.append(_append(text, Path(summary)))
    return paths


def _append(text: str, path: Path) -> Path:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(cannot("append to", path, error)) from error
    return path


def _rows(outcome: Outcome) -> list[tuple[str, ...]]:
    again = {change.label: change for change in outcome.confirmation}
    return [
        (
            change.label,
            _interval(change),
            f"{change.launches} / {change.baseline_launches}",
            change.verdict.value,
            _interval(again[change.label]) if change.label in again else "",
        )
        for change in outcome.changes
    ]


def _notes(outcome: Outcome, max_slowdown: float) -> list[str]:
    notes = [f"{WORDS[outcome.code]}: {outcome.reason}.", f"Threshold {max_slowdown:.1%}."]
    if outcome.now is not None:
        here = outcome.now.conditions
        notes.append(
            f"Measured on {here.device_name}, {count(here.threads, 'thread')}, torch"
            f" {here.torch_version}, {here.precision}: {here.workload}, batch {here.batch_size}."
        )
    if outcome.noise_floor is not None:
        notes.append(
            f"Noise floor {outcome.noise_floor:.1%}: the frozen loop over itself in the same"
            " launches. Launches: now / baseline."
        )
    return [*notes, *outcome.not_compared]


def _interval(change: Any) -> str:
    return f"{change.slowdown:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _change(change: Any) -> dict[str, Any]:
    return vars(change) | {"verdict": change.verdict.value}


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
