"""Follows the heads of some executions for one reader, so that it hears of every growth of their logs.

Changes of one execution that come fast are one: the reader is given its head as it is then, at most once in `INTERVAL_S`. It is given every head once when it
begins, so a reader that comes back after a break has missed nothing. Executions that have ended are followed too, since they may be retried.
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote

from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.stores.protocol import Head

WATCHED_MAX = 50
"""How many executions one reader may watch."""

INTERVAL_S = 0.1
"""The least time between two heads of one execution that a reader is given."""


def watched_keys(tenant: str, named: Sequence[str]) -> tuple[Key, ...]:
    """The keys that texts name: each as ``workflow/id``, both percent-encoded, so that a slash or a comma in one of them is none.

    Raises:
        BadValue: a text is no key, or there are too many.
    """
    found = dict.fromkeys(_watched_key(tenant, text) for text in named)
    if len(found) > WATCHED_MAX:
        raise BadValue("watch", len(found), f"{WATCHED_MAX} executions at most; watch those that are looked at, and read the others from lists")
    return tuple(found)


def _watched_key(tenant: str, text: str) -> Key:
    try:
        workflow, id = (unquote(part, errors="strict") for part in text.split("/"))
    except ValueError:
        workflow = id = ""
    if not workflow or not id or "\0" in text:
        raise BadValue("watch", text, "workflow/id with both parts percent-encoded, such as order/o-17 or order/2026%2F11%2Fo-17")
    return Key(tenant, workflow, id)


def watched_text(key: Key) -> str:
    """The text that names an execution to watch."""
    return str(key).partition("/")[2]


_State = tuple[float, int, str]


def _state(head: Head) -> _State:
    return head.created_at_s, head.version, head.status


class WatchedHeads:
    """The heads of watched executions that have changed since the reader took them. `arrived` is set while there are any."""

    def __init__(self, watcher: ChangeWatcher, keys: Sequence[Key]) -> None:
        self.arrived = asyncio.Event()
        self._changed: dict[Key, Head] = {}
        self._taken: dict[Key, _State] = {}
        self._following = [asyncio.create_task(self._follow(watcher, key)) for key in keys]

    async def _follow(self, watcher: ChangeWatcher, key: Key) -> None:
        known: _State | None = None
        while True:
            head = await watcher.until(key, lambda head: head is not None and _state(head) != known, quick=True)  # noqa: B023  # it is awaited at once
            assert head is not None, "the condition asks for one"
            known = _state(head)
            if self._taken.get(key) != known:
                self._changed[key] = head
                self.arrived.set()
            await asyncio.sleep(INTERVAL_S)

    def pass_by(self, head: Head) -> None:
        """Notes that the reader was given a head in another way."""
        self._taken[head.key] = _state(head)
        if (waiting := self._changed.get(head.key)) is not None and _state(waiting) == _state(head):
            del self._changed[head.key]

    def take(self) -> list[Head]:
        """Returns the heads that have changed, once.

        Raises:
            StoreUnavailable: they can't be followed any more, since the store is closed.
        """
        for task in self._following:
            if task.done():
                task.result()
        found, self._changed = list(self._changed.values()), {}
        self._taken |= {head.key: _state(head) for head in found}
        self.arrived.clear()
        return found

    async def wait(self, other: asyncio.Event) -> None:
        """Waits until a head has changed, or another event is set."""
        waits = [asyncio.create_task(event.wait()) for event in (self.arrived, other)]
        try:
            _ = await asyncio.wait([*waits, *self._following], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def aclose(self) -> None:
        """Ends the following."""
        for task in self._following:
            task.cancel()
        _ = await asyncio.gather(*self._following, return_exceptions=True)
