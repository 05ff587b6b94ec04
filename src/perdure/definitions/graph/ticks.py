"""The ticks of a `loop`: what its step comes to each time that it is reached, and what the steps of its body see as ``@loop``.

Its step is the head of a cycle. Reached from outside, or after it was done, it begins with the items as they are then; reached from its body, it goes on with
the next batch of the same items. It is left by ``loop`` with a batch, and by ``done`` when there is none left, at once if there are no items.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class LoopBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tick: which items there are and how many go in a batch, both fixed by the first, and from which one this batch begins (`len(items)`: done)."""

    items: tuple[Any, ...] = ()
    size: int = 1
    start: int = 0
    number: int = 0

    @property
    def done(self) -> bool:
        """Whether no batch is left."""
        return self.start >= len(self.items)

    @property
    def port(self) -> Literal["loop", "done"]:
        """The port by which the step is left."""
        return "done" if self.done else "loop"

    @property
    def data(self) -> dict[str, Any]:
        """What the step comes to: how far it is, and its batch."""
        return {"state": self._state(), "batch": self._batch()}

    @property
    def variables(self) -> dict[str, Any]:
        """What stands behind ``@loop``; with batches of one, `item` and `index` are its only item and the number of that."""
        seen = {"items": list(self.items), "state": self._state(), "batch": self._batch()}
        return seen | {"item": self.items[self.start], "index": self.start} if self.size == 1 and not self.done else seen

    def next(self) -> LoopBatch:
        """The tick after this one, which is not done."""
        return LoopBatch(self.items, self.size, min(self.start + self.size, len(self.items)), self.number + 1)

    def _state(self) -> dict[str, Any]:
        return {
            "currentIndex": self.start,
            "totalItems": len(self.items),
            "iterations": self.number,
            "batchesProcessed": self.number,
            "isComplete": self.done,
        }

    def _batch(self) -> dict[str, Any] | None:
        if self.done:
            return None
        items = list(self.items[self.start : self.start + self.size])
        return {"index": self.number, "size": len(items), "items": items, "startIndex": self.start, "endIndex": self.start + len(items) - 1}


def first_batch(items: Any, size: Any) -> LoopBatch | str:
    """The first tick over `items`, of which null is none; or why there can't be one."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return f"a batch has a whole number of items from 1, found {str(size)[:60]}"
    if items is not None and not isinstance(items, list):
        return f"loop over {str(items)[:60]}, which is no list"
    return LoopBatch(tuple(items or ()), size)
