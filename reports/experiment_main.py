"""The experiment `main`: all methods by density and task, each at the learning rate of a search
that every method had alike."""

from collections.abc import Iterable

from reports import published
from reports.experiment_accuracy import against_barter
from reports.experiment_family import Family
from reports.experiment_rates import learning_rates
from reports.picture import Picture
from reports.published import Published
from reports.summary import Summary
from reports.table import Table
from reports.table_parts import by_setting

MAIN, SEARCH = "main", "learning-rates"


def tables(family: Family) -> list[Table]:
    main, search = family.study(MAIN), family.study(SEARCH)
    made = []
    if main:
        title = "Accuracy by method and density"
        made.append(
            against_barter(main, "experiment_main", title, _published, published.OTHER_MODEL)
        )
    if search:
        made.append(learning_rates(search, main))
    return made


def _published(summary: Summary) -> Published | None:
    """Static minus BARTER: the only differences from scratch that are known."""
    if summary.contender.name != "static":
        return None
    over = published.OVER_STATIC.get(summary.contender.setting["workload"])
    return over and over.negated()


def pictures(family: Family) -> Iterable[Picture]:
    from reports.plots_density import against_density

    main = family.study(MAIN)
    settings = by_setting(main.summaries) if main else []
    for index, (setting, here) in enumerate(settings, 1):
        tail = f"-{setting.slug}-{index}" if len(settings) > 1 else ""
        where = f" ({setting['workload']})" if len(settings) > 1 else ""
        for name, what, value in (
            ("top1", "Top-1 accuracy", lambda s: s.top1),
            ("macro_f1", "Macro-F1", lambda s: s.macro_f1),
        ):
            figure = against_density(setting, here, value, what)
            none = "no test accuracy was recorded"
            yield f"experiment_{name}{tail}", f"{what} against density{where}", figure, none
