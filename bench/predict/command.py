"""`bench plan --predict`."""

import json
from pathlib import Path

from rich.console import Console

from bench.predict.cards import cards_of_file
from bench.predict.rows import predicted_rows
from bench.predict.tables import show_prediction
from bench.predict.target import find_target
from bench.spec import StudySpec
from bench.study_file import cards_of_study


def predict_command(
    spec: StudySpec, file: Path | None, cards: Path | None, as_json: bool, console: Console
) -> None:
    """Print what every kind of step of a study costs on the device that it names.

    Args:
        file: the study file, which may have tables [cards.NAME].
        cards: another file with such tables; its cards go before those of the study file.

    Raises:
        UsageError: no such card or device, or one that cannot do what is asked for.
    """
    added = (*(cards_of_file(cards) if cards else ()), *(cards_of_study(file) if file else ()))
    target = find_target(spec.device, spec.gpu, added)
    with console.status("Predicting") as status:
        rows = predicted_rows(spec, target, lambda title: status.update(f"Predicting {title}"))
    if as_json:
        console.out(json.dumps(rows, indent=2), highlight=False)
        return
    show_prediction(rows, target, console)
