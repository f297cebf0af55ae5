"""Tables of what came out: accuracy, transfers, what to be careful with, the configuration."""

from collections.abc import Sequence
from typing import Any

from bench.modes import TIME
from bench.reason_codes import worded
from reports.contenders import method_order, run_name
from reports.formats import integer, percent, points, spread
from reports.load import CONTINUE, Records, Run, Standing
from reports.speedups import dense_reference
from reports.statistics import Estimate
from reports.summary import Range, Summary, paired_difference
from reports.table import Column, Section, Shown, Table
from reports.table_parts import DENSITY, METHOD, RUNS, by_setting, section

SYNTHETIC = "synthetic data"
MOST_VALUES = 8
"""A setting with more different values than this is summed up."""


def accuracy(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        Column("seeds", "seeds", integer),
        Column("top1_percent", "top-1, % [95%]", percent, interval=True),
        Column("macro_f1_percent", "macro-F1, % [95%]", percent, interval=True),
        Column("minus_dense_points", "top-1 minus dense, points [95%]", points, interval=True),
        Column("minus_static_points", "top-1 minus static, points [95%]", points, interval=True),
    )
    sections = []
    for setting, here in by_setting(summaries):
        dense = dense_reference(summaries, setting)
        rows = [
            {
                "seeds": s.top1.runs if s.top1 else len(s.contender.seeds),
                "top1_percent": s.top1,
                "macro_f1_percent": s.macro_f1,
                "minus_dense_points": _minus(s, dense),
                "minus_static_points": _minus(s, _static(here, s.contender.density)),
            }
            for s in here
        ]
        if setting["synthetic_data"]:
            shown = ("top1_percent", "macro_f1_percent")
            rows = [
                {"seeds": row["seeds"], **dict.fromkeys(shown, Shown(SYNTHETIC))} for row in rows
            ]
        sections.append(section(records, setting, here, columns, rows, _accuracy_notes(here)))
    notes = [
        "Test split, checkpoint selected on the validation split, mean over seeds. Intervals: "
        "95 %, Student's t over seeds; none for one seed. Differences are paired by seed, to "
        "dense and to static of the same density.",
    ]
    return Table("accuracy", "Accuracy", sections, notes)


def _accuracy_notes(here: Sequence[Summary]) -> list[str]:
    notes = []
    runs = [run for s in here for run in s.contender.runs]
    images = sorted({run["test_images"] for run in runs if run["test_images"]})
    if images and not here[0].contender.setting["synthetic_data"]:
        notes.append(f"Test images: {' or '.join(f'{n:,}' for n in images)}.")
    measured = [s for s in here if s.top1]
    if measured and all(s.top1 and s.top1.runs == 1 for s in measured):
        notes.append("One seed each: no interval, and no difference is established.")
    return notes


def _static(here: Sequence[Summary], density: float) -> Summary | None:
    found = [s for s in here if (s.contender.method, s.contender.density) == ("static", density)]
    return found[0] if len(found) == 1 else None


def _minus(mine: Summary, other: Summary | None) -> Estimate | Shown | None:
    if other is None:
        return None
    return Shown("reference", 0.0) if mine is other else paired_difference(mine, other)


def transfers(records: Records, summaries: Sequence[Summary]) -> Table:
    columns = (
        METHOD,
        DENSITY,
        RUNS,
        Column("head_transfers", "head transfers, of scheduled"),
        Column("channel_transfers", "channel transfers, of scheduled"),
        Column("transfer_multiplier", "times the published number"),
        Column("skipped_transfers", "skipped"),
        Column("executed_updates", "steps with an update"),
        Column("skip_reasons", "why skipped (all runs)", text=True),
    )
    sections = []
    for setting, here in by_setting(summaries):
        dynamic = [s for s in here if any(run["is_dynamic"] for run in s.contender.runs)]
        if not dynamic:
            continue
        rows = [
            {
                "head_transfers": executed_of(
                    s.transfers.executed_heads, s.transfers.scheduled_heads
                ),
                "channel_transfers": executed_of(
                    s.transfers.executed_channels, s.transfers.scheduled_channels
                ),
                # Runs of one contender share it: any of them tells.
                "transfer_multiplier": s.contender.runs[0].config.get("config.transfer_multiplier"),
                "skipped_transfers": s.transfers.skipped and spread(s.transfers.skipped, integer),
                "executed_updates": s.transfers.updates and spread(s.transfers.updates, integer),
                "skip_reasons": ", ".join(
                    f"{reason} ({count})" for reason, count in s.transfers.skip_reasons.items()
                )
                or None,
            }
            for s in dynamic
        ]
        sections.append(section(records, setting, dynamic, columns, rows))
    notes = ["Counts per run; smallest to largest where runs differ. Dynamic methods only."]
    return Table("transfers", "Transfers", sections, notes)


def executed_of(executed: Range | None, scheduled: Range | None) -> str | None:
    if executed is None:
        return None
    return f"{spread(executed, integer)} of {spread(scheduled, integer) if scheduled else '?'}"


# ------------------------------------------------------------------------- care


def care(records: Records) -> Table:
    """Runs that are left out, invalid, or carry a reason for caution, alike ones together."""
    columns = (
        Column("standing", "standing", text=True),
        Column("workload", "workload", text=True),
        METHOD,
        DENSITY,
        Column("seeds", "seeds"),
        RUNS,
        Column("reason", "reason", text=True),
    )
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in records.runs:
        for standing, reason in cautions(run):
            key = (standing, run["workload"], run_name(run), run["density"], reason)
            groups.setdefault(key, []).append(run)
    rows = [
        {
            "standing": standing,
            "workload": workload,
            "method": method,
            "density": density,
            "seeds": ", ".join(str(seed) for seed in sorted({run["seed"] for run in runs})),
            "runs": len(runs),
            "reason": reason,
        }
        for (standing, workload, method, density, reason), runs in sorted(
            groups.items(), key=lambda item: _care_order(item[0])
        )
    ]
    caption = "" if rows else "Nothing: every run is in the tables, and none carries a caution."
    notes = [
        "Failed and skipped runs are in no figure. Invalid runs are shown and marked, and are in "
        "no speed-up. Runs with a caution are in every figure."
    ]
    sections = [Section(caption, columns, rows)]
    return Table("left_out", "Left out or to be read with care", sections, notes)


_STANDINGS = ("failed", "skipped", "invalid", "caution")


def _care_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    standing, workload, method, density, reason = key
    return _STANDINGS.index(standing), str(workload), method_order(method), density or 0, reason


def cautions(run: Run) -> list[tuple[str, str]]:
    """Standing and reason of everything a reader should know about a run; empty if nothing."""
    if run.standing in (Standing.FAILED, Standing.SKIPPED):
        return [(str(run.standing), run.reason)]
    found = [("invalid", run.reason)] if run.standing is Standing.INVALID else []
    found += [("caution", worded(code)) for code in run["reason_codes"] or ()]
    most, budget = run["active_parameters_max"], run["budget_parameters"]
    if most and budget and most > budget:
        found.append(("caution", f"{most:,} active parameters exceed the budget of {budget:,}"))
    if run["mode"] == TIME:
        return found  # it has blocks, and no steps
    if not len(run.steps.launch.times):
        found.append(("caution", "no timed step after warm-up"))
    if run.steps.untimed:
        found.append(("caution", f"{run.steps.untimed} steps without a time"))
    updates = run.standing is Standing.USED and run["start"] != CONTINUE
    for unit in ("head", "channel") if updates else ():
        done, asked = run[f"executed_{unit}_transfers"], run[f"scheduled_{unit}_transfers"]
        if asked and (done or 0) < asked:
            found.append(("caution", f"{done or 0} of {asked} scheduled {unit} transfers executed"))
    return found


def configuration(records: Records) -> Table:
    """Every configured value, so that no rule behind the figures goes unnamed."""
    return _listing(records, "configuration", "Configuration", "config")


def environment(records: Records) -> Table:
    """Everything recorded about the machine."""
    return _listing(records, "environment", "Environment", "environment")


def _listing(records: Records, key: str, title: str, attribute: str) -> Table:
    values: dict[str, dict[str, None]] = {}
    for run in sorted(records.runs, key=lambda r: (method_order(r["method"]), r["density"] or 0)):
        for name, value in getattr(run, attribute).items():
            values.setdefault(name, {})[value] = None
    rows = [{"key": name, "value": _listed(list(values[name]))} for name in values]
    columns = (Column("key", "setting", text=True), Column("value", "value", text=True))
    notes = ["Values of all runs; several where runs differ."]
    sections = [Section("", columns, rows)] if rows else []
    return Table(key, title, sections, notes, on_terminal=False)


def _listed(values: list[str]) -> str:
    if len(values) <= MOST_VALUES:
        return "; ".join(values)
    return f"{'; '.join(values[:MOST_VALUES])}; and {len(values) - MOST_VALUES} more"
