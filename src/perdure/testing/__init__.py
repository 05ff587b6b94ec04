"""The tools with which users test their workflows: virtual time, a store that injects faults, the conformance suite of stores, and a pytest plugin.

Each name is imported on first use, so that the plugin costs nothing in projects whose tests do not use it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.mocks import Mock, MockCall
    from perdure.testing.runs import RanStep, Run
    from perdure.testing.verdicts import Endless, NotIdempotent, NotReached, NotReplayed, Stuck, Unanswered, Verdict
    from perdure.testing.world import World
    from perdure.testing.world_effects import Effect, Effects

__all__ = [
    "Effect",
    "Effects",
    "Endless",
    "Mock",
    "MockCall",
    "NotIdempotent",
    "NotReached",
    "NotReplayed",
    "RanStep",
    "Run",
    "Stuck",
    "Unanswered",
    "Verdict",
    "World",
]

_HOMES = {
    "perdure.testing.world_effects": ("Effect", "Effects"),
    "perdure.testing.mocks": ("Mock", "MockCall"),
    "perdure.testing.runs": ("RanStep", "Run"),
    "perdure.testing.verdicts": ("Endless", "NotIdempotent", "NotReached", "NotReplayed", "Stuck", "Unanswered", "Verdict"),
    "perdure.testing.world": ("World",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
