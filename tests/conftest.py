"""What holds for all tests.

Properties that set no number of their own are tried with few examples in each run, and with many by `make prove`; long searches are marked `prove`.
What the collection of the tests has made (some 14,000 tests and the modules under them) stays until the end: the garbage collector leaves it alone.
A full collection, which many tests ask for, then takes milliseconds instead of a second.
Of a test with many sets of parameters, each run of all tests has the first (fewer of a test that is marked `slow`) and some of the others, and
`make prove` has all.
"""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("each run", max_examples=10, suppress_health_check=[HealthCheck.too_slow])  # which a busy machine is, and no test
settings.register_profile("long", max_examples=500, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("each run")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script; every process that a test begins would ignore Ctrl-C too
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(10_000, 10, 20)  # syntax trees, logs and worlds are large, and next to nothing in them is garbage

ALWAYS, ONE_IN = 7, 6
ALWAYS_OF_SLOW, ONE_IN_OF_SLOW = 1, 12
"""So many sets of parameters of a test (or of one that is marked `slow`) are in each run of all tests, and of the rest one in so many."""

SETTLED_EVERY = 1_000
"""After so many tests, what they left is put with what stays: modules, caches of the library, reports."""

SLOW_S = 3.0
"""A test that takes longer, and is not marked `slow`, is named at the end of the run: `make quick` runs it."""

_begun = count(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        _settle()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS and "PERDURE_PROVE_ORDER" not in os.environ:
        return
    numbers: defaultdict[str, Iterator[int]] = defaultdict(count)
    for item in items:
        always, one_in = (ALWAYS, ONE_IN) if item.get_closest_marker("slow") is None else (ALWAYS_OF_SLOW, ONE_IN_OF_SLOW)
        is_compared = "docs" in item.path.parts and item.get_closest_marker("slow") is None  # with what it is made from, in no time
        if is_compared:
            continue
        if item.get_closest_marker("prove") is None and (number := next(numbers[item.nodeid.partition("[")[0]])) >= always and number % one_in:
            item.add_marker("prove")


def pytest_runtest_logstart() -> None:
    if next(_begun) % SETTLED_EVERY == 0:
        _settle()


def _settle() -> None:
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for one in terminalreporter.getreports("passed") if one.when == "call" and one.duration > SLOW_S]
    unmarked = sorted((one for one in reports if not {"slow", "prove", "real"} & set(one.keywords)), key=lambda one: -one.duration)
    if unmarked:
        terminalreporter.section("slow tests without a mark")
        terminalreporter.write_line(f"Mark these tests with @pytest.mark.slow if they also take over {SLOW_S:g} s on a quiet machine; `make quick` runs them:")
        for one in unmarked[:10]:
            terminalreporter.write_line(f"  {one.duration:.1f} s  {one.nodeid}")


@pytest.fixture
def clean_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret is in the environment: what serves in the process of the tests may have set one."""
    for name in [name for name in os.environ if name.startswith("PERDURE_SECRET_")]:
        monkeypatch.delenv(name)
