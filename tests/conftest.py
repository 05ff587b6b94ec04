"""What holds for all tests.

Properties that set no number of their own are tried with few examples in each run, and with many by `make prove`; long searches are marked `prove`.
What the collection of the tests has made (some 14,000 tests and the modules under them) stays until the end: the garbage collector leaves it alone.
A full collection, which many tests ask for, then takes milliseconds instead of a second.
"""

import gc
from collections.abc import Generator
from itertools import count

import pytest
from hypothesis import settings

settings.register_profile("each run", max_examples=15)
settings.register_profile("long", max_examples=500)
settings.load_profile("each run")


SETTLED_EVERY = 200
"""After so many tests, what they left is put with what stays: modules, caches of the library, reports."""

_begun = count(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        _settle()
        gc.enable()


def pytest_runtest_logstart() -> None:
    if next(_begun) % SETTLED_EVERY == 0:
        _settle()


def _settle() -> None:
    gc.collect()
    gc.freeze()
