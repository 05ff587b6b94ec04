"""Remembers which messages arrived, so that each has an effect once: a watermark per sending execution, and recent keys of clients."""

from itertools import islice

import msgspec

from perdure.core import limits
from perdure.core.messages import Parent
from perdure.core.paths import Key, Path


class SenderWatermark(msgspec.Struct):
    """The messages of a sender that arrived: all up to `all_to`, and those in `beyond`."""

    all_to: int = 0
    beyond: set[int] = msgspec.field(default_factory=set)

    def knows(self, number: int) -> bool:
        """Whether this message has arrived."""
        return number <= self.all_to or number in self.beyond

    def add(self, number: int) -> None:
        """Records that it has."""
        if not self.knows(number):
            self.beyond.add(number)
            while self.all_to + 1 in self.beyond:
                self.all_to += 1
                self.beyond.remove(self.all_to)


def same_parent(one: Parent, other: Parent) -> bool:
    """Whether both are the same operation of the same execution, in any of its reopenings."""
    return (one.key, one.path) == (other.key, other.path)


class MessageDeduplication(msgspec.Struct):
    """The messages that arrived, by sender and by key with the time of arrival, and how often each parent had been reopened when it waited last."""

    watermarks: dict[Key, SenderWatermark] = msgspec.field(default_factory=dict)
    keys: dict[str, float] = msgspec.field(default_factory=dict)
    reopenings: dict[tuple[Key, Path], int] = msgspec.field(default_factory=dict)

    def knows(self, sender: Key | None, sent: int, key: str, now_s: float) -> bool:
        """Whether this message arrived before, as far as is remembered."""
        if sender is not None:
            watermark = self.watermarks.get(sender)
            return watermark is not None and watermark.knows(sent)
        return bool(key) and key in self.keys and self.keys[key] >= now_s - limits.CLIENT_KEY_RETENTION_S

    def add(self, sender: Key | None, sent: int, key: str, at_s: float) -> None:
        """Records a message. Removes expired keys, at most two a call, so that each call costs the same and the keys still become fewer."""
        if sender is not None:
            self.watermarks.setdefault(sender, SenderWatermark()).add(sent)
        elif key:
            self.keys.pop(key, None)
            self.keys[key] = at_s
            for oldest in tuple(islice(self.keys, 2)):
                if self.keys[oldest] < at_s - limits.CLIENT_KEY_RETENTION_S:
                    del self.keys[oldest]

    def watched(self, watchers: list[Parent], parent: Parent) -> list[Parent]:
        """Returns the watchers with `parent`, which replaces its own entry from before it was reopened."""
        self.reopenings[parent.key, parent.path] = parent.reopened
        return [*(one for one in watchers if not same_parent(one, parent)), parent]

    def wants_more(self, parent: Parent) -> bool:
        """Whether `parent` was reopened since it waited last."""
        return parent.reopened > self.reopenings.get((parent.key, parent.path), 0)
