"""Validation accuracy against cumulative training FLOPs, one panel per density."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from reports import captions
from reports.contenders import Setting
from reports.formats import FLOPS, fitting
from reports.load import Records, Run
from reports.plot_style import title
from reports.plots_curves import Axis, Curve, Drawn, draw, seed_counts
from reports.summary import Summary


def accuracy(
    setting: Setting, summaries: Sequence[Summary], records: Records, split: str = "validation"
) -> Figure | None:
    """None without evaluations, and of synthetic data."""
    contenders = [s.contender for s in summaries]
    all_of_them = [
        Drawn(c, c.name, c.label, list(curves_of(c.runs, records, split).values()))
        for c in contenders
    ]
    drawn = [d for d in all_of_them if d.curves]
    if not drawn or setting["synthetic_data"]:
        return None
    farthest = max(float(x[-1]) for d in drawn for x, _ in d.curves)
    unit, name = fitting(farthest, FLOPS)
    axis = Axis(f"cumulative training compute, {name}", unit)
    figure = draw(drawn, axis, f"top-1 accuracy, {split} split, %")
    runs = [run for d in drawn for run in d.contender.runs]
    note = f"FLOPs = 2 MACs. Bold: mean over seeds; thin: each seed ({seed_counts(drawn)})"
    title(figure, "Accuracy against compute", f"{captions.caption(setting, runs)}. {note}.")
    return figure


def curves_of(runs: Sequence[Run], records: Records, split: str) -> dict[str, Curve]:
    """The curve of each run that has one, by run id."""
    ids = {run["run_id"] for run in runs}
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in records.evals:
        compute, top1 = row["cumulative_training_macs"], row["top1_percent"]
        if row["run_id"] in ids and row["split"] == split and compute and top1 is not None:
            points[row["run_id"]].append((2 * compute, top1))
    arrays = {run_id: np.array(points[run_id]) for run_id in sorted(points)}
    return {run_id: (array[:, 0], array[:, 1]) for run_id, array in arrays.items()}
