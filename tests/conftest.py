"""What holds for all tests.

Properties that set no number of their own are tried with few examples in each run; long searches are marked `prove`.
What the collection of the tests has made (some 14,000 tests and the modules under them) stays until the end: the garbage collector leaves it alone.
A full collection, which many tests ask for, then takes milliseconds instead of a second.
"""

import gc

from hypothesis import settings

settings.register_profile("each run", max_examples=40)
settings.load_profile("each run")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
