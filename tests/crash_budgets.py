"""How many of the worlds of `crash_at_every_write` a test plays: some in each run of the tests, and all where there is time for them."""

import pytest

Budget = dict[str, int | None]

SAMPLE: Budget = {"once_max": 12, "again_max": 4}
WHOLE: Budget = {"once_max": None, "again_max": 60}

crash_budgets = pytest.mark.parametrize("budget", [pytest.param(SAMPLE, id="some"), pytest.param(WHOLE, id="all", marks=pytest.mark.prove)])
"""Parametrizes a test that gives `budget` to `crash_at_every_write`."""
