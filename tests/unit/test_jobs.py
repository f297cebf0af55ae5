"""Runs at once: what is watched, shown and noted."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

import bench.runner
from bench.checkpoints.policy import Checkpointing
from bench.display import LiveDisplay, PlainDisplay
from bench.errors import UsageError
from bench.progress import Progress
from bench.run_command import Manner, run_asked
from bench.run_spec import RunSpec
from bench.runner import run_study
from bench.running_note import Noting, running_note
from bench.schema import FAILED, OK
from bench.spec import StudySpec
from bench.store import StudyStore
from bench.study_file import study_spec


class Fake:
    """A run in three messages: its progress twice, then its row."""

    open: ClassVar[list["Fake"]] = []
    most = 0

    def __init__(self, spec: RunSpec, *_: Any) -> None:
        self.spec, self._said = spec, 0
        Fake.open.append(self)
        Fake.most = max(Fake.most, len(Fake.open))

    def hear(self) -> Any:
        self._said += 1
        if self._said < 3:
            return Progress(self._said, 2, 1.0, None)
        if self.spec.method == "set":
            raise UsageError("its checkpoint is damaged")
        status = FAILED if self.spec.method == "static" else OK
        return {"status": status, "reason": "", "wall_s": 1.0, "test_top1_percent": None} | {
            "is_dynamic": False,
            "run_id": self.spec.run_id,
        }

    def close(self) -> None:
        if self in Fake.open:
            Fake.open.remove(self)


@pytest.fixture(autouse=True)
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    Fake.open, Fake.most = [], 0
    monkeypatch.setattr(bench.runner, "RunProcess", Fake)
    # The later started speaks first: runs end in another order than they began.
    monkeypatch.setattr(bench.runner, "with_news", lambda taken: [taken[-1]])
    monkeypatch.setattr(bench.runner, "start_server", lambda device: None)


def asked(methods: str) -> tuple[StudySpec, Sequence[RunSpec]]:
    spec = study_spec(None, {"methods": methods, "seeds": "0", "steps": 2, "name": "mine"})
    return spec, spec.runs()


def run(tmp_path: Path, display: Any, methods: str, jobs: int) -> bench.runner.Outcome:
    runs = asked(methods)[1]
    return run_study(runs, StudyStore(tmp_path, "mine"), None, display, Checkpointing(), jobs)


@pytest.mark.parametrize("jobs", [1, 2, 3, 9])
def test_never_more_at_once_and_all_of_them(tmp_path: Path, jobs: int) -> None:
    text = io.StringIO()
    display = PlainDisplay(Console(file=text, width=200))
    outcome = run(tmp_path, display, "dense,static,barter,rigl,snfs", jobs)
    assert Fake.most == min(jobs, 5)
    assert Fake.open == []
    assert len({row["run_id"] for row in outcome.rows}) == 5
    assert len(outcome.failed) == 1
    assert text.getvalue().count(": ok in 1.0 s") == 4
    assert "[5/5]" in text.getvalue()


def test_lines_keep_the_number_of_their_run(tmp_path: Path) -> None:
    text = io.StringIO()
    run(tmp_path, PlainDisplay(Console(file=text, width=200)), "dense,barter,rigl", 2)
    lines = [line for line in text.getvalue().splitlines() if "ok in" in line]
    assert [line[:5] for line in lines] == ["[2/3]", "[3/3]", "[1/3]"]
    assert lines[2].startswith("[1/3] dense")


def test_bars(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    display = LiveDisplay(console)
    run(tmp_path, display, "dense,static,barter", 2)
    (study,) = display._bars.tasks  # those of ended runs are gone
    assert (study.completed, study.total) == (6, 6)


def test_a_refused_run_stops_the_others(tmp_path: Path) -> None:
    display = PlainDisplay(Console(file=io.StringIO()))
    with pytest.raises(UsageError, match="its checkpoint is damaged"):
        run(tmp_path, display, "dense,set", 2)
    assert Fake.open == []


def test_the_note_holds_every_run_under_way(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, "mine")
    first, second = asked("dense,barter")[1]
    store.folder.mkdir(parents=True)
    noting = Noting(PlainDisplay(Console(file=io.StringIO())), store)
    noting.begin((first, second), 0)
    noting.run_started(first, 0)
    noting.run_started(second, 1)
    assert {key: note["step"] for key, note in running_note(store).items()} == {
        first.run_id: 0,
        second.run_id: 1,
    }
    noting._at = float("-inf")
    noting.run_progress(second, Progress(2, 2, 0.5, None))
    assert running_note(store)[second.run_id]["loss"] == 0.5


def test_less_than_one_is_refused() -> None:
    with pytest.raises(UsageError, match="--jobs 0: at least 1"):
        Manner(Path("results"), Console(), jobs=0)


def test_mode_time_runs_alone(tmp_path: Path) -> None:
    given = {"methods": "dense", "seeds": "0", "mode": "time", "device": "cpu"}
    manner = Manner(tmp_path, Console(file=io.StringIO()), jobs=2)
    with pytest.raises(UsageError, match="--jobs 2: mode time runs one contender at a time"):
        run_asked(study_spec(None, given), manner)
