"""The words around the tables: which setting, what the interval is, what was left out."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.reason_codes import FOREIGN_CPU_LOAD, FOREIGN_GPU_PROCESS
from bench.schema import EXECUTION_DEFAULTS
from reports.contenders import COMPARABLE, Setting, density_text, run_name
from reports.formats import number
from reports.load import Records, Run, Standing
from reports.statistics import RESAMPLES
from reports.summary import Summary

INTERVAL = (
    "95 % intervals: hierarchical bootstrap (runs, each a fresh process; then blocks of steps), "
    "Student's t for the number of runs. Warm-up steps are excluded, no outlier is."
)
METHOD = (
    f"Step times: {RESAMPLES:,} bootstrap resamples with a fixed seed. A resample draws runs with "
    "replacement, then within each run circular blocks of sqrt(n) neighbouring steps; for means, "
    "blocks are drawn within each kind of step (ordinary, collecting, dense gradient, update), so "
    "that the schedule's number of updates stays fixed. The standard error is that of the "
    "logarithm over resamples, times sqrt(R / (R - 1)); the interval is the estimate times or "
    "divided by exp(t * standard error), t being Student's with R - 1 degrees of freedom. With "
    "one run, R counts its blocks: the interval then leaves out all variation between launches. "
    "Ratios: standard errors add in squares, degrees of freedom by Welch and Satterthwaite. The "
    "update cost, which may be negative, is treated without the logarithm. Accuracy: Student's t "
    "over seeds."
)
ONE_RUN = "covers only step-to-step variation within one process, not that between launches"
MOST_NAMES = 6
DISTURBED = (FOREIGN_CPU_LOAD, FOREIGN_GPU_PROCESS)
DISAGREEMENT = 1.2
SEQUENTIAL = (
    "Runs were sequential processes, not interleaved blocks: drift of the machine between runs "
    "is in the intervals only as far as several launches cover it."
)


def caption(setting: Setting, runs: Sequence[Run]) -> str:
    """One line: workload, machine, batch and schedule."""
    machine = setting["device_name"] or "device not recorded"
    details = [setting["device"] or "device kind not recorded"]
    if setting["device"] == "cpu" and setting["threads"]:
        details.append(_count(setting["threads"], "thread"))
    if setting["device"] == "cuda" and setting["tf32"] is not None:
        details.append(f"TF32 {'on' if setting['tf32'] else 'off'}")
    details += executed(setting)
    if setting["driver"]:
        details.append(f"driver {setting['driver']}")
    details.append(f"torch {setting['torch_version'] or 'version not recorded'}")
    parts = [
        f"{setting['workload']} on {machine} ({', '.join(details)})",
        f"batch {setting['batch_size']}",
        schedule(runs),
    ]
    if setting["synthetic_data"]:
        parts.append("synthetic data")
    return ", ".join(parts)


def executed(setting: Setting) -> list[str]:
    """How the runs were executed, where that is not the usual way."""
    words = {
        "autocast": f"autocast {setting['autocast']}",
        "compile": "compiled",
        "attention": f"attention {setting['attention']}",
        "optimizer": f"Adam {setting['optimizer']}",
    }
    return [words[c] for c, usual in EXECUTION_DEFAULTS.items() if setting[c] != usual]


def schedule(runs: Sequence[Run]) -> str:
    """The steps of a run, and of which schedule if they are not all of it; of every length that
    the runs have."""
    lengths = sorted({run["total_steps"] or 0 for run in runs})
    return " or ".join(
        _of_length(length, [run for run in runs if (run["total_steps"] or 0) == length])
        for length in lengths
    )


def _of_length(length: int, runs: Sequence[Run]) -> str:
    steps = f"{length:,} steps per run"
    shortened = [run for run in runs if run["schedule_shortened"]]
    if not shortened:
        return steps
    full = shortened[0]["full_schedule_steps"]
    return f"{steps} (schedule shortened from {full:,})" if full else f"{steps} (shortened)"


def setting_columns(setting: Setting) -> dict[str, Any]:
    """The setting for a CSV row."""
    return dict(zip(COMPARABLE, setting.values, strict=True))


def timing_notes(summaries: Sequence[Summary]) -> list[str]:
    """What makes the times of contenders doubtful; for every table that has some."""
    return [*_single_runs(summaries), *_disagreements(summaries), *_disturbances(summaries)]


def _single_runs(summaries: Sequence[Summary]) -> list[str]:
    """A note naming the contenders whose interval rests on one process."""
    single = [s.contender for s in summaries if s.times.mean and s.times.mean.runs == 1]
    timed = [s for s in summaries if s.times.mean]
    if not single:
        return []
    if len(single) == len(timed):
        return [f"Every row rests on one run: its interval {ONE_RUN}."]
    names = ", ".join(contender.label_with_density for contender in single)
    return [f"One run only, so that the interval {ONE_RUN}: {names}."]


def _disagreements(summaries: Sequence[Summary]) -> list[str]:
    """A note naming contenders whose runs differ by more than DISAGREEMENT in their means."""
    named = [
        f"{s.contender.label_with_density} ({number(means.low)} to {number(means.high)} ms)"
        for s in summaries
        if (means := s.times.run_means) and means.high > DISAGREEMENT * means.low
    ]
    if not named:
        return []
    return [
        "Runs disagree, as on a machine that did other work: the means of single runs of "
        f"{', '.join(named)} differ by more than {DISAGREEMENT - 1:.0%}."
    ]


def disturbed(summaries: Sequence[Summary]) -> list[str]:
    """How many runs something else computed beside, for each kind of it."""
    runs = [run for s in summaries for run in s.contender.runs]
    counts = Counter(c for run in runs for c in run["reason_codes"] or () if c in DISTURBED)
    return [f"{n} of {_count(len(runs), 'run')} ({c})" for c, n in sorted(counts.items())]


def _disturbances(summaries: Sequence[Summary]) -> list[str]:
    """A note counting them: such times are no evidence of speed."""
    return [
        f"Disturbed by other programs: {what}. Their times are no evidence of speed: "
        "repeat them with `--mode time` and nothing else running."
        for what in disturbed(summaries)
    ]


def left_out(records: Records, setting: Setting) -> list[str]:
    """A note counting the runs of a workload that have no figures."""
    missing = [
        run
        for run in records.runs
        if run["workload"] == setting["workload"]
        and run.standing in (Standing.FAILED, Standing.SKIPPED)
    ]
    if not missing:
        return ["Left out: none of the workload's runs."]
    counts = [
        f"{count} {standing}"
        for standing in (Standing.FAILED, Standing.SKIPPED)
        if (count := sum(run.standing is standing for run in missing))
    ]
    names = list(dict.fromkeys(run_text(run) for run in missing))
    if len(names) > MOST_NAMES:
        names = [*names[:MOST_NAMES], f"and {len(names) - MOST_NAMES} more"]
    total = sum(run["workload"] == setting["workload"] for run in records.runs)
    return [
        f"Left out: {' and '.join(counts)} of the workload's {_count(total, 'run')} "
        f"({', '.join(names)})."
    ]


def run_text(run: Run) -> str:
    """Method, density and seed."""
    return f"{run_name(run)} {density_text(run['density'])} seed {run['seed']}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
