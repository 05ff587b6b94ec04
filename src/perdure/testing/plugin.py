"""The pytest plugin: the fixture `world`, the marker `perdure`, and options for all tests that use `world`.

pytest loads it wherever Perdure is installed, so it imports nothing expensive before a test uses a world. A test with `crash_at="every"` is set up, called
and torn down anew for each durable write, fixtures included, and is reported as one test.

It has no assertions that pytest would rewrite, and may have been imported before pytest starts: PYTEST_DONT_REWRITE.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from perdure.testing.plugin_settings import CRASH_PLAN, WORLD, settings_of

if TYPE_CHECKING:
    from perdure.testing.world import World

MARKER = """\
perdure(crash_at=None, always_suspend=False, seed=None, replay=True, crashes_max=500): how the world of this test behaves. \
crash_at="every" runs it again with its process killed before and after each durable write, crash_at="before:3" with one of these; \
always_suspend=True evicts executions whenever they wait; seed determines the order of callbacks that are ready at one moment ("random": a new one each time); \
replay=False omits the check that each execution can be replayed from its log."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the command line."""
    group = parser.getgroup("perdure", "durable workflows: for every test that uses `world`")
    group.addoption("--perdure-crash-at", metavar="WHEN", help='kill the process: "every" for each of its writes in turn, "7", "before:7" or "after:7" for one')
    group.addoption("--perdure-always-suspend", action="store_true", help="evict executions whenever they wait")
    group.addoption("--perdure-seed", metavar="SEED", help='the seed of the order of callbacks that are ready at one moment; "random" for a new one each time')


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rejects invalid markers before any test runs."""
    for item in items:
        if item.get_closest_marker("perdure") is not None or item.config.getoption("perdure_crash_at"):
            settings_of(item)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator["World"]:
    """Virtual time, an engine and a store for one test of workflows: see `perdure.testing.World`."""
    from secrets import randbelow

    from perdure.testing.world import World

    settings, plan = settings_of(request.node), request.node.stash.get(CRASH_PLAN, None)
    seed = randbelow(10**9) if settings.seed == "random" else settings.seed
    crash, undisturbed = (None, None) if plan is None else (plan.crash, plan.undisturbed)
    made = request.node.stash[WORLD] = World(seed=seed, always_suspend=settings.always_suspend, crash=crash, undisturbed=undisturbed)
    yield made
    made.close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After a test that has passed, checks the invariants of its world."""
    __tracebackhide__ = True
    made, plan = item.stash.get(WORLD, None), item.stash.get(CRASH_PLAN, None)
    if made is None:
        return
    made.check(replay=settings_of(item).replay)
    if plan is not None and plan.asked_for and made.machine.crashed_at is None:
        from perdure.testing.verdicts import NotReached

        raise NotReached(str(plan.crash), len(made.machine.writes))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Adds to the report of a failure where the process was killed, and the trace of the world."""
    made, plan = item.stash.get(WORLD, None), item.stash.get(CRASH_PLAN, None)
    error = None if call.excinfo is None else call.excinfo.value
    if made is not None and plan is not None and isinstance(error, Exception):
        from perdure.testing.crash_runs import crash_note

        error.add_note(crash_note(made, plan.crash, item.nodeid))
    outcome = yield
    report = outcome.get_result()
    if made is not None and report.failed and call.when == "call" and (trace := made.trace()):
        report.sections.append(("perdure trace", trace))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Runs a test with `crash_at` once for each crash point."""
    if "world" not in getattr(item, "fixturenames", ()) or settings_of(item).crash_at is None:
        return None
    from perdure.testing.crash_runs import run_all_crashes

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_all_crashes(item, nextitem):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
