"""Remembers which attempts an engine has surely not begun, although the log may say so.

An attempt begins once the commit that announces it is durable. If it is not known whether it is, nothing is begun; and if the log, read again, then shows the
attempt, it looks like one that was interrupted. Of a step that is not idempotent, such an attempt would not be repeated.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from perdure.core.paths import Key, Path

KEYS_MAX = 10_000
"""Of how many executions at most attempts are remembered, the latest. Those before count as interrupted, as they would if the process had died."""


LoggedAttempt = tuple[str, Path, int]
"""An attempt in the log of an execution: the holder that performs it, its path and its number."""


class UnbegunAttempts:
    """The attempts in commits of this engine that were not acted upon."""

    def __init__(self) -> None:
        self._of: OrderedDict[Key, set[LoggedAttempt]] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._of)

    def __iter__(self) -> Iterator[Key]:
        """Yields the executions of which attempts are remembered."""
        return iter(self._of)

    def add(self, key: Key, attempts: Iterable[LoggedAttempt]) -> None:
        """Adds attempts of an execution."""
        if unbegun := set(attempts):
            self._of.setdefault(key, set()).update(unbegun)
            if len(self._of) > KEYS_MAX:
                self._of.popitem(last=False)

    def includes(self, key: Key, attempt: tuple[str | None, Path, int]) -> bool:
        """Whether an attempt that the log shows in flight has surely not begun."""
        return attempt in self._of.get(key, ())

    def forget(self, key: Key) -> None:
        """Forgets the attempts of an execution, because a later commit of this engine has taken effect."""
        self._of.pop(key, None)

    def clear(self) -> None:
        """Forgets all."""
        self._of.clear()
