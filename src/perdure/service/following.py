"""Following an execution: what people read from its log as it grows.

Who comes late finds what is left of a log, under numbers that are never lower than the true ones; so nothing that is left is missed by going on behind a
number.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import values, views
from perdure.core.execution import Execution
from perdure.core.ops import Keep
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.core.views import PublicEvent
from perdure.service.access import Access
from perdure.service.fold import Fold


class Emitted(msgspec.Struct, frozen=True):
    """A value of an execution's stream. Numbers begin at 1; `dropped` values before this one are gone, with the turns that emitted them."""

    number: int
    value: Any
    dropped: int = 0


async def stream(access: Access, key: Key, after: int, follow: bool) -> AsyncGenerator[Emitted, None]:
    """The values of an execution's stream behind number `after`; with `follow`, until it ends.

    Raises:
        NotFound: there is no such execution.
    """
    fold, number = Fold(access.store, key), after
    while True:
        while (grown := await fold.more(_emitted)) is not None:
            shift = 0 if grown.snapshot is None else grown.snapshot.emitted - len(grown.taken)
            for count, value in grown.taken:
                if count + shift > number:
                    dropped, number = count + shift - number - 1, count + shift
                    yield Emitted(number, values.decode(await access.payload(value), Any, "a value of the stream"), dropped)
        if fold.execution.ended is not None or not follow:
            return
        await _news(access, fold)


def _emitted(execution: Execution, event: e.Event) -> Iterable[tuple[int, Value]]:
    before = execution.emitted
    execution.apply(event)
    if execution.emitted > before and isinstance(event, e.Opened) and isinstance(event.op, Keep):
        return ((execution.emitted, event.op.value),)
    return ()


async def history(access: Access, key: Key, after: int, follow: bool) -> AsyncGenerator[PublicEvent, None]:
    """The public events of an execution behind the id `after`, as far as its log goes; with `follow`, until it ends.

    Raises:
        NotFound: there is no such execution.
    """
    fold, last = Fold(access.store, key), after
    while True:
        before = fold.execution.status
        while (grown := await fold.more(_public)) is not None:
            shift = 0 if grown.snapshot is None else grown.snapshot.version - grown.snapshot.kept
            execution = fold.execution
            if execution.status in views.WAITING and execution.status != before:
                grown.taken.append(PublicEvent(execution.version - shift, "execution.waiting", key, execution.now_s, data={"why": views.why(execution)}))
            for event in grown.taken:
                if event.id + shift > last:
                    yield msgspec.structs.replace(event, id=event.id + shift)
            last, before = max(last, execution.version), execution.status
        if fold.execution.ended is not None or not follow:
            return
        await _news(access, fold)


def _public(execution: Execution, event: e.Event) -> Iterable[PublicEvent]:
    found = list(views.public(execution, event))
    execution.apply(event)
    return found


async def _news(access: Access, fold: Fold) -> None:
    """Wait until there is more of the log than was folded."""
    _ = await access.watch.until(fold.execution.key, lambda head: head is None or head.version > fold.execution.version, quick=True)
