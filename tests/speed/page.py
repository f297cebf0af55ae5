"""`docs/performance.md` from recordings: goals beside what was measured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.store import StudyStore
from reports.captions import caption
from reports.captions_time import settings_notes
from reports.formats import NOTHING, estimate, number, with_interval
from reports.load import load
from reports.paired import log_ratios, mean_ratio, scaled
from reports.side_by_side import Comparison, compared
from reports.statistics import Estimate
from reports.summary_time import TimedContender
from tests.speed.plan import (
    COLLECTING_GOAL,
    DENSITIES,
    MODELS,
    RIGL_GOALS,
    UPDATE_GOAL,
    VARIANTS,
    Model,
    Variant,
)
from tests.speed.words import LEFT_OUT, NOTHING_RECORDED, TEXT

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
Profile = Mapping[str, Sequence[Mapping[str, Any]]]
"""`operators` and `updates`: rows of tests.speed.operators."""
Recorded = Mapping[tuple[Variant, str], "Measured"]


@dataclass(frozen=True)
class Measured:
    """One model's recording under one execution."""

    comparison: Comparison
    profile: Profile

    def of(self, method: str, density: float) -> TimedContender | None:
        for contender in self.comparison.contenders:
            known = contender.facts.contender
            if (known.method, known.density) == (method, density):
                return contender
        return None

    def ratio(self, mine: TimedContender | None, theirs: TimedContender | None) -> Estimate | None:
        """Of schedule-weighted mean steps."""
        pair = self.comparison.pair(mine, theirs) if mine and theirs else None
        return pair and pair.judged.ratio


def read(store: StudyStore, profile: Path) -> Measured:
    """A study's records, and its profile where there is one."""
    _, (comparison,) = compared(load(store))
    return Measured(comparison, json.loads(profile.read_text()) if profile.exists() else {})


def page(recorded: Recorded) -> str:
    parts = []
    for variant in VARIANTS:
        here = [(m, recorded[variant, m.name]) for m in MODELS if (variant, m.name) in recorded]
        if here:
            parts.append(f"## {variant.title}\n")
        for model, measured in here:
            parts += _model(model, measured)
    missing = [v.title for v in VARIANTS if not any(key[0] == v for key in recorded)]
    return TEXT.format(measured="\n".join(parts) or NOTHING_RECORDED, left_out=left_out(missing))


def left_out(missing: Sequence[str]) -> str:
    return "\n".join(f"* {line}" for line in [*(f"Not recorded: {t}." for t in missing), *LEFT_OUT])


def _model(model: Model, measured: Measured) -> list[str]:
    first = measured.comparison.contenders[0].facts.contender
    notes = settings_notes(measured.comparison)
    parts = [
        f"### {model.name}, batch {model.batch_size}\n",
        f"{caption(first.setting, first.runs)}. {' '.join(notes)}\n",
        goals_table(model, measured),
        rigl_table(measured),
        "BARTER over Static: steps that collect scores over ordinary ones, the whole schedule, and"
        " one update in steps, from its windows and its own span in replays (median and quartiles)"
        f". Goals: collecting {COLLECTING_GOAL:.1%}, an update {UPDATE_GOAL:.0%} of a step.\n",
        static_table(measured),
    ]
    if measured.profile:
        parts += [
            "By operator at density 0.1, torch.profiler's own time per step (it slows small"
            " operators down most):\n",
            operators_table(measured.profile["operators"]),
        ]
    return parts


# ------------------------------------------------------------------------ tables


def goals_table(model: Model, measured: Measured) -> str:
    """Step times over that of dense; the verdict is BARTER's."""
    rows, dense = [], measured.of("dense", 1.0)
    for density in DENSITIES:
        static, barter = (
            measured.ratio(measured.of(method, density), dense) for method in ("static", "barter")
        )
        limit = model.limit(density)
        rows.append(
            (
                f"{density:g}",
                f"{limit:.3f}",
                f"{model.goals[density]:.2f}",
                f"{model.stretch[density]:.2f}" if model.stretch else NOTHING,
                _text(static),
                _text(barter),
                reached(barter, model.goals[density]),
                f"{barter.value - limit:+.3f}" if barter else NOTHING,
            )
        )
    heads = ("density", "limit F", "goal", "stretch", "Static over dense", "BARTER over dense")
    return table((*heads, "goal is", "BARTER beyond F"), rows)


def rigl_table(measured: Measured) -> str:
    rows = []
    for density, goal in RIGL_GOALS.items():
        rigl, barter = (measured.of(method, density) for method in ("rigl", "barter"))
        ratio = measured.ratio(rigl, barter)
        rows.append((f"{density:g}", f"{goal:g}", _text(ratio), reached(ratio, goal, least=True)))
    return table(("density", "goal", "masked RigL over BARTER", "goal is"), rows)


def static_table(measured: Measured) -> str:
    replayed = {row["density"]: row["ratios"] for row in measured.profile.get("updates", ())}
    rows = []
    for density in DENSITIES:
        static, barter = (measured.of(method, density) for method in ("static", "barter"))
        collecting = _segments(barter, "collecting", static, "ordinary")
        rows.append(
            (
                f"{density:g}",
                _excess(collecting),
                reached(collecting, 1 + COLLECTING_GOAL),
                _excess(measured.ratio(barter, static)),
                _window(barter),
                _quartiles(replayed.get(density, ())),
            )
        )
    heads = ("density", "collecting", "goal is", "whole schedule", "update, by windows")
    return table((*heads, "update, by replay"), rows)


def operators_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Groups by what they take of Static's step; the first row is the sum."""
    dense, static, barter = (
        next(row for row in rows if row["method"] == method)
        for method in ("dense", "static", "barter")
    )
    total = sum(static["ms"].values())
    groups = sorted(dense["ms"].keys() | static["ms"].keys(), key=lambda g: -_of(static, "ms", g))
    lines = []
    for name, members in [("all", groups), *((group, [group]) for group in groups)]:
        mine, full, moving = (
            sum(_of(row, "ms", group) for group in members) for row in (static, dense, barter)
        )
        calls = sum(_of(static, "calls", group) for group in members)
        ratio = f"{mine / full:.2f}" if full else NOTHING
        ms = (number(full), number(mine), ratio, f"{mine / total:.1%}")
        lines.append((name, *ms, f"{calls:,.0f}", f"{moving - mine:+.2f}"))
    heads = ("operators", "dense, ms", "Static, ms", "Static over dense", "of Static's step")
    return table((*heads, "calls in Static", "BARTER collecting more, ms"), lines)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


# ------------------------------------------------------------------------- cells


def reached(found: Estimate | None, goal: float, least: bool = False) -> str:
    """Whether a goal is kept: with the whole interval on one side of it, or else open."""
    if found is None or found.low is None or found.high is None:
        return NOTHING
    if found.low <= goal < found.high:
        return "open"
    return "reached" if (found.low > goal) == least else "missed"


def _text(found: Estimate | None) -> str:
    return estimate(found) if found else NOTHING


def _excess(ratio: Estimate | None) -> str:
    """As a percentage above 1."""
    return with_interval(ratio, lambda x: f"{x - 1:+.1%}") if ratio else NOTHING


def _segments(
    mine: TimedContender | None, name: str, theirs: TimedContender | None, other: str
) -> Estimate | None:
    one, two = (c and c.segment(n) for c, n in ((mine, name), (theirs, other)))
    return mean_ratio(log_ratios(one.cells, two.cells)) if one and two else None


def _window(barter: TimedContender | None) -> str:
    if barter is None or barter.update is None or barter.mean is None:
        return NOTHING
    cost = scaled(barter.update.per_update_ms, 1 / barter.mean.value)
    return with_interval(cost, lambda x: f"{x:+.1%}")


def _quartiles(ratios: Sequence[float]) -> str:
    if not ratios:
        return NOTHING
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    return f"{middle:.2%} [{low:.2%}, {high:.2%}], n = {len(ratios)}"


def _of(row: Mapping[str, Any], what: str, group: str) -> float:
    return row[what].get(group, 0.0)
