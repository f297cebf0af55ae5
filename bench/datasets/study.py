"""The data sets of a study, found before its runs are made. No torch."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.datasets.location import Place, Stored, data_folder, loaders
from bench.datasets.sources import get_source
from bench.datasets.watch import ConsoleWatch
from bench.errors import UsageError
from bench.run_spec import RunSpec
from bench.spec import REAL, SYNTHETIC, StudySpec
from bench.workloads.registry import get_workload


def with_data(given: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """The options of a study; a folder of data asks for real data.

    Raises:
        UsageError: they ask for synthetic batches as well.
    """
    if place.folder is None:
        return given
    if given.get("data") == SYNTHETIC:
        raise UsageError(
            "--data-dir names real data, --data synthetic asks for none: leave one out"
        )
    return {**given, "data": REAL}


def find_data(
    spec: StudySpec, place: Place, watch: ConsoleWatch
) -> tuple[StudySpec, list[RunSpec]]:
    """The study with the identities of its data sets, and its runs with what they need of them.

    Raises:
        UsageError: data are missing or damaged.
    """
    makers = loaders(place.loaders, spec.device)
    if spec.data != REAL:
        return spec, spec.runs()
    from bench.datasets.prepare import prepare  # numpy and pillow, which few commands need

    names = dict.fromkeys(get_workload(name).dataset for name in spec.workloads)
    found = {}
    for name in filter(None, names):
        decoded = prepare(get_source(name), data_folder(place.folder), watch)
        found[decoded.identity] = Stored(str(decoded.folder.resolve()), makers)
    spec = replace(spec, datasets=tuple(found))
    runs = [replace(run, stored=found.get(run.dataset or "")) for run in spec.runs()]
    return spec, runs
