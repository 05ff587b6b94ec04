"""Graphs: what is seen of executions of definitions: by which definition they go on, where their tokens are, how their steps stand. Nothing is changed here."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.core import events as e
from perdure.core import log, views
from perdure.core.errors import BadValue, NotFound
from perdure.core.folding import fold
from perdure.core.paths import Key
from perdure.core.rebuild import Load
from perdure.core.views import StepView
from perdure.programs.graph import seen, standing, tokens
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.planning import planned
from perdure.programs.graph.standing import Standing
from perdure.programs.graph.tokens import Tokens
from perdure.runtime.driving import drive
from perdure.runtime.payloads import Payloads
from perdure.service.access import Access
from perdure.service.fold import Fold
from perdure.stores.looking import Looking

T = TypeVar("T")
Told = Callable[[GraphWorkflow, Key, Sequence[e.Event], int], Generator[Load, bytes, T]]


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
    """Every operation that an execution knows, in the order in which they were opened; of a definition, by its verbs.

    Raises:
        NotFound: there is no such execution.
    """
    definition = (await fold.refresh()).definition
    if definition is None:
        return await fold.seen(views.steps)
    plan = planned(definition.sha256, {definition.sha256: await access.payload(definition)})
    return await fold.seen(lambda execution: seen.steps(execution, plan.ir))


async def tokens_of(looking: Looking, key: Key, number: int | None = None) -> Tokens:
    """Where the tokens of an execution are, or were after an event of its log: the counter, joins, applied keys, open steps, outputs.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code, has not begun, or its log has no such event.
    """
    return await _told(looking, key, number, tokens.at)


async def standing_of(looking: Looking, key: Key, number: int | None = None) -> Standing:
    """How the steps of an execution stand, or stood after an event of its log.

    Raises:
        NotFound: there is no such execution.
        BadValue: it is one of code, has not begun, or its log has no such event.
    """
    found = await _told(looking, key, number, standing.at)
    if found is None:
        raise BadValue("event", number, "one behind its beginning")
    return found


async def _told(looking: Looking, key: Key, number: int | None, at: Told[T]) -> T:
    found = await looking.read(key)
    if found is None:
        raise NotFound(key)
    events = log.decode_all(found.rows)
    if fold(key, events, found.head.root).definition is None:
        raise BadValue("execution", str(key), "one of a definition that has begun; it is code, or has not begun")
    chosen = len(events) if number is None else number
    if not 1 <= chosen <= len(events):
        raise BadValue("event", number, f"one of its log, 1 to {len(events)}")
    return await drive(Payloads(looking), at(GraphWorkflow(key.workflow), key, events, chosen))
