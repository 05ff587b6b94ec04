"""All events that were ever written to a store, also those that a compacted log has forgotten."""

from collections.abc import Sequence

from perdure.core import events as e
from perdure.core import log
from perdure.core.paths import Key
from perdure.stores.base import Answer, Commit, Committed, Post
from perdure.stores.memory import MemoryStore


class Kept:
    """Stands between a store and all who use it, and keeps what is written: the `events` of each execution."""

    def __init__(self, store: MemoryStore) -> None:
        self.events: dict[Key, list[e.Event]] = {}
        self._commit = store.commit
        store.commit = self.commit  # type: ignore[method-assign]  # it stands between

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`."""
        answers = await self._commit(changes)
        for change, answer in zip(changes, answers, strict=True):
            if isinstance(change, Commit) and isinstance(answer, Committed) and change.row:
                self.events.setdefault(change.key, []).extend(log.decode(change.row))
        return answers
