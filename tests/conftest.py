"""For all tests: one thread, so that tiny tensors do not pay for two, and no test timed; at the end
how many golden cases were compared, by all processes together."""

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import settings

from tests.golden.conftest import cases_run

torch.set_num_threads(1)

settings.register_profile("bench", deadline=None, max_examples=60)
settings.load_profile("bench")

_by_workers: Counter[str] = Counter()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker's counts go to the process that started it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["golden"] = dict(cases_run)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _by_workers.update(getattr(node, "workeroutput", {}).get("golden", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind, number in sorted((cases_run + _by_workers).items()):
        terminalreporter.write_line(f"golden: {kind}: {number} cases run")
