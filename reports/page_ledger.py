"""What the ledger adds to a report: of runs in full and of contenders side by side alike."""

from collections.abc import Callable, Iterable, Sequence

from bench.modes import TIME
from reports import ledger, tables_ledger, tables_predictions
from reports.experiment_family import Study
from reports.ledger import Book
from reports.load import Records
from reports.picture import Picture
from reports.predicted import without_contender
from reports.predictions import Prediction
from reports.table import Table

TABLES: tuple[Callable[[Records, Sequence[Book]], Table], ...] = (
    tables_ledger.ledger,
    tables_ledger.ledger_bytes,
    tables_predictions.ledger_predictions,
)
PICTURES = ("ledger",)


def books_of(study: Study) -> list[Book]:
    if study.records.mode == TIME:
        return ledger.timed(study.comparisons)
    return ledger.trained(study.summaries)


def head(records: Records, books: Sequence[Book]) -> list[str]:
    """A line on predictions that nothing was measured beside, if there are any."""
    contenders = [account.facts.contender for _, accounts in books for account in accounts]
    line = without_contender(records.predictions, contenders)
    return [line] if line else []


def make_tables(records: Records, books: Sequence[Book]) -> list[Table]:
    """All tables that have something to say."""
    made = [make(records, books) for make in TABLES]
    return [table for table in made if any(section.rows for section in table.sections)]


def pictures(books: Sequence[Book], predictions: Sequence[Prediction]) -> Iterable[Picture]:
    """One for every setting; names carry the workload where there are several."""
    from reports.plots_ledger import ledger as draw

    for index, book in enumerate(books, 1):
        setting, _ = book
        tail = f"-{setting.slug}-{index}" if len(books) > 1 else ""
        where = f" ({setting['workload']})" if len(books) > 1 else ""
        none = "no contender has a ratio to dense"
        yield f"ledger{tail}", f"Savings promised and real{where}", draw(book, predictions), none
