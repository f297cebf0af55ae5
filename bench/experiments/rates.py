"""Which learning rate a search chose for each method. No torch."""

from collections import defaultdict
from statistics import fmean

from bench.method_registry import METHODS
from bench.schema import OK
from bench.store import StudyStore

Rates = tuple[tuple[str, str, float], ...]
"""Workload, method and rate, sorted."""


def chosen_rates(store: StudyStore) -> Rates:
    """The best rate of every method on every workload that a search covers.

    Best is the highest mean over seeds of a run's best validation top-1 (which is how a run's
    model is selected), of equal ones the lowest rate. A rate of which any run failed is out.
    Methods without any validation accuracy, as on synthetic data, have none.
    """
    best: dict[str, float] = {}
    for row in store.arrow("evals", ("split", "top1_percent")).to_pylist():
        if row["split"] == "validation" and row["top1_percent"] is not None:
            best[row["run_id"]] = max(row["top1_percent"], best.get(row["run_id"], 0.0))
    tried: dict[tuple[str, str], dict[float, list[float | None]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in store.finished().values():
        reached = best.get(row["run_id"]) if row["status"] == OK else None
        tried[row["workload"], row["method"]][row["learning_rate"]].append(reached)
    chosen = []
    for (workload, method), rates in sorted(tried.items()):
        means = {
            rate: fmean(value for value in reached if value is not None)
            for rate, reached in sorted(rates.items())
            if None not in reached
        }
        if means:
            chosen.append((workload, method, max(means, key=lambda rate: means[rate])))
    return tuple(chosen)


def with_variants(rates: Rates) -> Rates:
    """The same, BARTER's rates for its variants too: they differ in their selection alone."""
    variants = [info.name for info in METHODS.values() if info.transfers]
    more = [(w, name, rate) for w, method, rate in rates if method == "barter" for name in variants]
    return tuple(sorted({*rates, *more}))
