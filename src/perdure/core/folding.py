"""Folding: from a log to the execution that it is."""

from collections.abc import Iterable

from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.paths import Key


def fold(key: Key, events: Iterable[e.Event], root: Key | None = None) -> Execution:
    """The execution that these events add up to."""
    execution = Execution(key, root)
    for event in events:
        execution.apply(event)
    return execution
