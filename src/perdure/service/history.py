"""Streams what people read from the log of an execution as it grows: the values that it emits, and its public events.

After a compaction, numbers are computed so that they are never lower than the original ones; a reader that continues after a number misses nothing that
is left.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core import values
from perdure.core.execution import Execution
from perdure.core.operations import KeepOperation
from perdure.core.paths import Key
from perdure.core.values import Value
from perdure.core.views import PublicEvent
from perdure.service.execution_folds import ExecutionFold
from perdure.service.history_tails import HistoryTail
from perdure.service.past_states import read_past
from perdure.service.store_access import StoreAccess


class EmittedValue(msgspec.Struct, frozen=True):
    """A value of an execution's stream. Numbers begin at 1; `dropped` counts the values before it that were forgotten with their iterations."""

    number: int
    value: Any
    dropped: int = 0


async def stream_values(access: StoreAccess, key: Key, after: int, follow: bool, at: int | None = None) -> AsyncGenerator[EmittedValue, None]:
    """Yields the values of an execution's stream after number `after`; with `follow`, until the execution ends. With `at`, those that it had emitted as of that
    event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event, or has it no more.
    """
    fold, number = ExecutionFold(access.store, key), after
    emitted_max = None if at is None else (await read_past(access.store, key, at)).fold().emitted
    while True:
        while (grown := await fold.more(_emitted_values)) is not None:
            shift = 0 if grown.snapshot is None else grown.snapshot.emitted - len(grown.taken)
            for count, value in grown.taken:
                if emitted_max is not None and count + shift > emitted_max:
                    return
                if count + shift > number:
                    dropped, number = count + shift - number - 1, count + shift
                    yield EmittedValue(number, values.decode(await access.payload(value), Any, "a value of the stream"), dropped)
        if emitted_max is not None or fold.execution.ended is not None or not follow:
            return
        await _wait_for_growth(access, fold)


def _emitted_values(execution: Execution, event: e.Event) -> Iterable[tuple[int, Value]]:
    before = execution.emitted
    execution.apply(event)
    if execution.emitted > before and isinstance(event, e.OpenedEvent) and isinstance(event.op, KeepOperation):
        return ((execution.emitted, event.op.value),)
    return ()


async def stream_history(access: StoreAccess, key: Key, after: int, follow: bool) -> AsyncGenerator[PublicEvent, None]:
    """Yields the public events of an execution after the id `after`; with `follow`, until the execution ends.

    Where a reader stops, the next one goes on, so that the pages of a long log are read in one pass.

    Raises:
        NotFound: there is no such execution.
    """
    tail = access.histories.take(key, after) or HistoryTail(access.store, key)
    last = after
    try:
        while True:
            for event in tail.recent:
                if event.id > last:
                    yield event
            last = max(last, tail.fold.execution.version)
            if await tail.advance():
                continue
            if tail.fold.execution.ended is not None or not follow:
                break
            await _wait_for_growth(access, tail.fold)
    except GeneratorExit:  # the reader has what it wanted; on any other exception the fold may be behind `recent`
        access.histories.keep(tail)
        raise
    access.histories.keep(tail)


async def _wait_for_growth(access: StoreAccess, fold: ExecutionFold) -> None:
    """Waits until the log has more than was folded."""
    _ = await access.watch.until(fold.execution.key, lambda head: head is None or head.version > fold.execution.version, quick=True)
