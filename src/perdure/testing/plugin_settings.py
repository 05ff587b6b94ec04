"""Settings: what the marker `perdure` and the command line may say of a test."""

from typing import Any, NamedTuple


class WorldSettings(NamedTuple):
    """When its process is killed, whether executions leave memory at each wait, what draws the order of things, whether they are replayed at the end."""

    crash_at: Any = None
    always_suspend: bool = False
    seed: int | str | None = None
    replay: bool = True
    crashes_max: int = 500
