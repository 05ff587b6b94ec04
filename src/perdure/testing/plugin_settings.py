"""The settings of one test's world, read from the command line and the marker `perdure`, and stored in the stash of the test.

The plugin imports this module in every test session, so it imports nothing of Perdure before a test has the marker.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from perdure.testing.crash_points import CrashPoint
    from perdure.testing.world import Undisturbed, World


class WorldSettings(NamedTuple):
    """When the process is killed, whether executions are evicted at each wait, the seed of the order of callbacks, and whether logs are replayed at the end."""

    crash_at: Any = None
    always_suspend: bool = False
    seed: int | str | None = None
    replay: bool = True
    crashes_max: int = 500


class CrashPlan(NamedTuple):
    """The crash of this run, and the undisturbed run that it is compared with."""

    crash: "CrashPoint"
    undisturbed: "Undisturbed"
    asked_for: bool


CRASH_PLAN = pytest.StashKey[CrashPlan | None]()
WORLD: "pytest.StashKey[World]" = pytest.StashKey()


def settings_of(item: pytest.Item) -> WorldSettings:
    """The settings of a test: from the command line, else from the nearest marker.

    Raises:
        pytest.UsageError: a setting is invalid.
    """
    from perdure.testing.crash_points import parse_crash_points

    settings = WorldSettings()
    for marker in reversed(list(item.iter_markers("perdure"))):
        unknown = [*map(repr, marker.args), *(marker.kwargs.keys() - set(WorldSettings._fields))]
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.perdure does not know {', '.join(unknown)}; it knows {', '.join(WorldSettings._fields)}")
        settings = settings._replace(**marker.kwargs)
    config = item.config
    settings = settings._replace(
        crash_at=config.getoption("perdure_crash_at") or settings.crash_at,
        always_suspend=config.getoption("perdure_always_suspend") or settings.always_suspend,
        seed=settings.seed if (given := config.getoption("perdure_seed")) is None else int(given) if given.isdecimal() else given,
    )
    if settings.crash_at is not None:
        try:
            parse_crash_points(settings.crash_at)
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error
    return settings
