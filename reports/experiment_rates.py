"""The search for each method's learning rate: what was tried, what was best, what it cost."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from reports import captions
from reports.contenders import COMPARABLE, density_text, method_order, run_name, setting_of
from reports.experiment_accuracy import SEEDS, SYNTHETIC_NOTE, learning_rate
from reports.experiment_family import Study
from reports.formats import integer, percent
from reports.load import Records, Run, Standing
from reports.statistics import Estimate, student_mean
from reports.summary import by_value
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD
from reports.tables_outcome import SYNTHETIC

COLUMNS = (
    METHOD,
    DENSITY,
    Column("learning_rate", "learning rate", lambda rate: f"{rate:g}"),
    Column("tried_runs", "runs", integer),
    Column("steps", "steps in all", integer),
    SEEDS,
    Column("validation_top1_percent", "validation top-1, % [95%]", percent, interval=True),
    Column("best", "best of its method", text=True),
    Column("used", "in the main study", text=True),
)
Contest = tuple[str, float]
"""Method (with its options) and density."""


def learning_rates(search: Study, main: Study | None) -> Table:
    """A row for every method and rate, failed ones among them."""
    records = search.records
    reached = _best_validation(records)
    sections = []
    for workload in sorted({run["workload"] for run in records.runs}):
        runs = [run for run in records.runs if run["workload"] == workload]
        used = _used(main, workload)
        sections.append(_section(records, runs, reached, used))
    notes = [
        "Validation split, best evaluation of each run (which is how its checkpoint is selected), "
        "mean over seeds; intervals: 95 %, Student's t over seeds, none for one. Best: the highest "
        "mean, of equal ones the lowest rate; a rate of which a run failed is not. Runs and steps "
        "count what was tried, failed runs with all steps of their schedule.",
        "No rate is published.",
    ]
    return Table("experiment_rates", "Search for learning rates", sections, notes)


def _section(
    records: Records,
    runs: Sequence[Run],
    reached: Mapping[str, float],
    used: Mapping[str, set[float]],
) -> Section:
    contests: dict[Contest, dict[float, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        rate = learning_rate(run)
        if rate is not None:
            contests[run_name(run), run["density"]][rate].append(run)
    rows, budgets = [], {}
    for (name, density), tried in sorted(contests.items(), key=lambda item: _order(item[0])):
        means = {rate: _mean(tried[rate], reached) for rate in sorted(tried)}
        best = _best(means, tried)
        for rate, mean in means.items():
            rows.append(
                {
                    "method": name,
                    "density": density,
                    "learning_rate": rate,
                    "tried_runs": len(tried[rate]),
                    "steps": sum(run["total_steps"] or 0 for run in tried[rate]),
                    "seeds": mean.runs if mean else 0,
                    "validation_top1_percent": mean or _no_accuracy(tried[rate]),
                    "best": "best" if rate == best else None,
                    "used": "used" if rate in used.get(name, ()) else None,
                }
            )
        alike = [run for rate in tried for run in tried[rate]]
        budgets[f"{name} {density_text(density)}"] = (
            len(alike),
            sum(run["total_steps"] or 0 for run in alike),
        )
    shown = [run for run in runs if run.standing in (Standing.USED, Standing.INVALID)]
    setting = setting_of((shown or runs)[0])
    notes = [_budget_note(budgets), *_settings_note(shown)]
    notes += [SYNTHETIC_NOTE] if setting["synthetic_data"] else []
    return Section(
        captions.caption(setting, shown or runs),
        COLUMNS,
        rows,
        [*notes, *captions.left_out(records, setting)],
        captions.setting_columns(setting),
        heads=2,
    )


def _order(contest: Contest) -> tuple[Any, ...]:
    name, density = contest
    return method_order(name), density


def _best_validation(records: Records) -> dict[str, float]:
    """Highest validation top-1 of each run that has one."""
    reached: dict[str, float] = {}
    for row in records.evals:
        if row["split"] == "validation" and row["top1_percent"] is not None:
            reached[row["run_id"]] = max(row["top1_percent"], reached.get(row["run_id"], 0.0))
    return reached


def _mean(runs: Sequence[Run], reached: Mapping[str, float]) -> Estimate | None:
    return student_mean(list(by_value(runs, lambda run: reached.get(run["run_id"])).values()))


def _best(
    means: Mapping[float, Estimate | None], tried: Mapping[float, Sequence[Run]]
) -> float | None:
    """Rates come in rising order, so that the lowest of equal ones wins."""
    whole = {
        rate: mean.value
        for rate, mean in means.items()
        if mean and all(run.standing is not Standing.FAILED for run in tried[rate])
    }
    return max(whole, key=lambda rate: whole[rate], default=None)


def _no_accuracy(runs: Sequence[Run]) -> Shown:
    if all(run.standing is Standing.FAILED for run in runs):
        return Shown("failed")
    if all(run.standing is Standing.SKIPPED for run in runs):
        return Shown("skipped")
    return Shown(SYNTHETIC if any(run["synthetic_data"] for run in runs) else "not recorded")


def _used(main: Study | None, workload: str) -> dict[str, set[float]]:
    """The rates of each method in the main study."""
    used: dict[str, set[float]] = defaultdict(set)
    for run in main.records.runs if main else ():
        rate = learning_rate(run)
        if run["workload"] == workload and rate is not None:
            used[run_name(run)].add(rate)
    return used


def _budget_note(budgets: Mapping[str, tuple[int, int]]) -> str:
    """Whether every method had the same number of runs and steps."""
    if not budgets:
        return "No run recorded a learning rate."
    words = {
        name: f"{runs} runs of {steps:,} steps in all" for name, (runs, steps) in budgets.items()
    }
    if len(set(budgets.values())) == 1:
        (text,) = set(words.values())
        return f"Search budget, the same for every method of the table: {text}."
    listed = "; ".join(f"{name}: {text}" for name, text in words.items())
    return f"Search budgets are NOT equal, so the comparison favours whoever had more: {listed}."


def _settings_note(shown: Sequence[Run]) -> list[str]:
    settings = list(dict.fromkeys(setting_of(run) for run in shown))
    differing = {column for other in settings[1:] for column in settings[0].difference(other)}
    if not differing:
        return []
    columns = ", ".join(column for column in COMPARABLE if column in differing)
    return [f"These runs differ in {columns}: rates of unlike runs are set side by side."]
