"""Every message twice: once it was dealt with, it comes again."""

from collections.abc import Sequence

from perdure.core.mail import Ack, Send
from perdure.core.paths import Address
from perdure.stores.base import Answer, Commit, Committed, Post
from perdure.stores.memory import MemoryStore

Letter = tuple[Address, str]


class Twice:
    """Stands between a store and all who use it: what was sent is sent again, once, when it was read. `again` counts what came so."""

    def __init__(self, store: MemoryStore) -> None:
        self._commit = store.commit
        self._sent: dict[Letter, Send] = {}
        self._sent_again: set[Letter] = set()
        store.commit = self.commit  # type: ignore[method-assign]  # it stands between

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`."""
        answers = await self._commit(changes)
        kept = [change for change, answer in zip(changes, answers, strict=True) if isinstance(answer, Committed)]
        for sent in (sent for change in kept for sent in change.sends):
            self._sent.setdefault((sent.to, sent.key), sent)
        again = [send for change in kept for ack in change.acks if (send := self._to_repeat(ack)) is not None]
        if again:
            await self._commit([Post(sends=tuple(again))])
        return answers

    @property
    def again(self) -> int:
        """How many have come twice."""
        return len(self._sent_again)

    def _to_repeat(self, ack: Ack) -> Send | None:
        """What was read, if it has not come twice by now."""
        letter = (ack.to, ack.key)
        if letter in self._sent_again or letter not in self._sent:
            return None
        self._sent_again.add(letter)
        return self._sent[letter]
