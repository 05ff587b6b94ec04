"""A pytest plugin for `tools/prove.py`: runs tests in a given order until a moment, and writes each result to a file as soon as it is known.

What to do is in the environment, which the workers of pytest-xdist inherit: a file with the ids in `PERDURE_PROVE_ORDER`, one for results
in `PERDURE_PROVE_RESULTS`, and the time after which no test begins, in seconds since 1970, in `PERDURE_PROVE_UNTIL`.
"""

import json
import os
import time
from pathlib import Path

import pytest

WHY_CHARS = 4_000
"""How much is kept of why a test failed: its end, since pytest, which prints it all, may be killed before."""

_phases: dict[str, list[pytest.TestReport]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the wanted tests, in their order."""
    by_id = {item.nodeid: item for item in items}
    items[:] = [by_id[id] for id in json.loads(Path(os.environ["PERDURE_PROVE_ORDER"]).read_text()) if id in by_id]


class _TimeLimit:
    """Skips each test that would begin after the time limit; it has no result then."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        return True if time.time() > float(os.environ["PERDURE_PROVE_UNTIL"]) else None


def pytest_configure(config: pytest.Config) -> None:
    """Registers the time limit last, since pytest calls hooks in reverse order: before the plugin that runs a test once for each crash."""
    config.pluginmanager.register(_TimeLimit())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the result of a test once it has been torn down."""
    _phases.setdefault(report.nodeid, []).append(report)
    if report.when != "teardown" or "PYTEST_XDIST_WORKER" in os.environ:
        return
    phases = _phases.pop(report.nodeid)
    outcomes = {phase.outcome for phase in phases}
    outcome = next((one for one in ("failed", "skipped") if one in outcomes), "passed")
    why = "\n".join(phase.longreprtext for phase in phases if phase.outcome == "failed")[-WHY_CHARS:]
    line = json.dumps({"test": report.nodeid, "outcome": outcome, "seconds": sum(phase.duration for phase in phases), "why": why})
    with Path(os.environ["PERDURE_PROVE_RESULTS"]).open("a") as file:
        file.write(line + "\n")
