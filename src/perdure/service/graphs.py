"""Graphs: what people see of executions of definitions: the definition by which they go on, and the view of their state. Nothing is changed here."""

import asyncio
from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from perdure.core import log, views
from perdure.core.errors import BadValue, NotFound
from perdure.core.folding import fold
from perdure.core.paths import Key
from perdure.core.rebuild import Load
from perdure.core.views import StepView
from perdure.programs.graph import view
from perdure.programs.graph.view import View
from perdure.runtime.payloads import Payloads
from perdure.service.access import Access
from perdure.service.fold import Fold
from perdure.stores.looking import Looking

T = TypeVar("T")


class Present(msgspec.Struct, frozen=True):
    """The definition by which an execution goes on, as it is kept, and its hash. `version` is its own."""

    hash: str
    document: dict[str, Any]

    @property
    def version(self) -> str:
        """The version that the definition gives itself."""
        return str(self.document.get("version", "1.0.0"))


async def present(looking: Looking, key: Key) -> Present | None:
    """The definition by which an execution goes on; None, if it is one of code, or has not begun.

    Raises:
        NotFound: there is no such execution.
    """
    found = await looking.read(key)
    if found is None:
        raise NotFound(key)
    blob = fold(key, log.decode_all(found.rows), found.head.root).definition
    if blob is None:
        return None
    return Present(f"sha256:{blob.sha256}", msgspec.json.decode(await Payloads(looking).get(blob.sha256)))


async def steps(access: Access, fold: Fold) -> list[StepView]:
    """Every operation that an execution knows, in the order in which they were opened; of a definition, by its verbs, and with the steps that hold others.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: the log does not replay over the definition.
    """
    execution = await fold.refresh()
    if execution.definition is None:
        return await fold.seen(views.steps)
    if fold.shown is None or fold.shown[0] != execution.version:
        found = await view_of(access.store, fold.key)
        fold.shown = execution.version, (await fold.seen(views.steps) if found is None else found.steps)
    return fold.shown[1]


async def view_of(looking: Looking, key: Key, number: int | None = None) -> View | None:
    """The view of an execution, now or after an event of its log; None, if it had not begun by then.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code, or its log has no such event.
        NotReplayable: the log does not replay over the definition.
    """
    found = await looking.read(key)
    if found is None:
        raise NotFound(key)
    events = log.decode_all(found.rows)
    if fold(key, events, found.head.root).definition is None:
        raise BadValue("execution", str(key), "one of a definition that has begun; it is code, or has not begun")
    chosen = len(events) if number is None else number
    if not 1 <= chosen <= len(events):
        raise BadValue("event", number, f"one of its log, 1 to {len(events)}")
    return await _driven(Payloads(looking), view.at(key, events, chosen))


async def _driven(payloads: Payloads, making: Generator[Load, bytes, T]) -> T:
    """Run the making of a view to its end, in threads, as it takes as long as a log is."""
    answer: Any = None
    while True:
        asked = await asyncio.to_thread(_next, making, answer)
        if not isinstance(asked, Load):
            return asked[0]
        answer = await payloads.get(asked.blob.sha256)


def _next(making: Generator[Load, bytes, T], answer: Any) -> Load | tuple[T]:
    try:
        return making.send(answer)
    except StopIteration as end:  # which can't leave a thread
        return (end.value,)
