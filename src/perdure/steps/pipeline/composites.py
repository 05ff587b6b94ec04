"""Composites: pipelines that were used twice or more, each a tool of its own with a name, found by words, and called again by its name.

Each use of a pipeline in a definition is counted by the execution of `perdure.programs.code.composite` that has the pipeline's name as its id. Here that is
read: what it has counted, and what lies in its mail and is about to be. So a use is found as soon as its result is durable, whether or not an engine has looked
at it.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from perdure.core import log, messages, values
from perdure.core.attributes import shown
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.mail import Mail
from perdure.core.ops import COMPOSITE
from perdure.core.paths import Key
from perdure.core.values import NOTHING, Value
from perdure.expr import template
from perdure.programs.code.composite import ABOUT, USED, USES, USES_MAX, Shape
from perdure.programs.code.declare import Step
from perdure.programs.code.durations import whole
from perdure.programs.code.resources import opened
from perdure.steps.deployment import NOTHING_MORE, Deployment
from perdure.steps.pipeline.bounds import DEFAULT, Bounds
from perdure.steps.pipeline.failed import PipelineFailed
from perdure.steps.pipeline.paths import Row
from perdure.steps.pipeline.running import http_of, performed
from perdure.stores.base import Filter, Head, Log
from perdure.stores.looking import Looking

PROMOTED_FROM = 2
"""So many uses make a pipeline a composite."""

PAGE = 500
SEARCHED_MAX = 20_000
"""So many of the newest pipelines are searched."""

ALIVE = frozenset(("pending", "running", "waiting", "completed", "needs_attention"))
"""The statuses of the executions that count: one that was cancelled is forgotten."""

TRIES_MAX = 20
_WORD = re.compile(r"[^\W_]+")


class Composite(msgspec.Struct, frozen=True):
    """A pipeline that was used before: its name, what it does, how often it was used (10,000: so often or more), its operations, and the inputs that it
    takes."""

    name: str
    description: str
    uses: int
    pipeline: list[Any]
    inputs: tuple[str, ...]


async def search(looking: Looking, query: str, limit: int = 10, tenant: str = "default") -> list[Composite]:
    """The composites whose name, description or fields have words of `query`, those with more of them first, then those that were used more often, then by
    name.

    A word in the name counts 3, one elsewhere 2, the beginning of one 1. A query without words means all.

    Raises:
        BadValue: the limit is no number from 1.
    """
    _ = whole(limit, "limit")
    wanted = _words(query)
    found = list[tuple[int, int, str]]()
    async for head in _heads(looking, tenant):
        score = _score(wanted, head)
        if (score or not wanted) and (uses := await _uses(looking, head)) >= PROMOTED_FROM:
            found.append((-score, -uses, head.key.id))
    best = [await get(looking, name, tenant) for _, _, name in sorted(found)[:limit]]
    return [one for one in best if one is not None]


async def get(looking: Looking, name: str, tenant: str = "default") -> Composite | None:
    """The composite of a name; None, if there is none, or not enough uses of it."""
    found = await _contents(looking, Key(tenant, COMPOSITE, name))
    if found is None or found[0].head.status not in ALIVE:
        return None
    execution, mail = _folded(found), found[1]
    shape, uses = await _shape(looking, execution, mail), _counted(execution, mail)
    return None if shape is None or uses < PROMOTED_FROM else Composite(shape.name, shape.description, uses, shape.pipeline, shape.inputs)


async def called(
    looking: Looking, name: str, inputs: Mapping[str, Any], tenant: str = "default", deployment: Deployment = NOTHING_MORE, bounds: Bounds = DEFAULT
) -> list[Row]:
    """The rows that a composite makes of its inputs.

    Raises:
        PipelineFailed: there is no such composite, an input is missing, or an operation can't do its work.
        OperationFailed, RetryAfter: as `run`.
    """
    return await performed(*await resolved(looking, name, inputs, tenant), http_of(deployment), bounds)


async def resolved(looking: Looking, name: str, inputs: Mapping[str, Any], tenant: str) -> tuple[list[Any], dict[str, Any]]:
    """The operations of a composite with its inputs in them, and the tables among these.

    Raises:
        PipelineFailed: there is no such composite, or an input is missing.
    """
    composite = await get(looking, name, tenant)
    if composite is None:
        raise PipelineFailed(-1, "", f"there is no composite {name!r}; a pipeline is one from its second use on, and search finds it by words")
    if missing := [one for one in composite.inputs if inputs.get(one) is None]:
        raise PipelineFailed(-1, "", f"the composite {name} takes {', '.join(composite.inputs)}; {', '.join(missing)} is missing in its input")
    scope: Any = _Inputs(inputs)
    ops: list[Any] = template.compiled(composite.pipeline).evaluate(scope)
    values = {read.path[0] for read in template.compiled(composite.pipeline).reads}
    return ops, {one: inputs[one] for one in composite.inputs if one not in values}


def tool(composite: Composite, deployment: Deployment = NOTHING_MORE) -> Step[Any, Any, Any]:
    """A composite as a tool: a step of its name that takes its inputs by name, to be given to `Definition.of(..., tools=...)` or to an agent."""
    from perdure.programs.code.info import step_info

    async def call(**inputs: Any) -> list[Row]:
        return await called(opened.get().store, composite.name, inputs, step_info().execution.tenant, deployment)

    call.__doc__ = f"{composite.description}. Inputs: {', '.join(composite.inputs)}."
    return Step(call, name=composite.name)


class _Inputs:
    """The scope in which a composite's references are resolved: its inputs."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = dict(inputs)

    def root(self, name: str) -> Any:
        """The inputs."""
        if name == "input":
            return self._inputs
        raise KeyError(name)

    def step(self, id: str) -> Any:
        """There are no steps."""
        raise KeyError(id)

    envelope = step


async def _heads(looking: Looking, tenant: str) -> AsyncIterator[Head]:
    which, seen = Filter(tenant=tenant, workflow=COMPOSITE, statuses=ALIVE, limit=PAGE), 0
    while seen < SEARCHED_MAX and (heads := await looking.heads(which)):
        for head in heads:
            yield head
        seen += len(heads)
        which = msgspec.structs.replace(which, older_than=heads[-1].key)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def _score(wanted: list[str], head: Head) -> int:
    name, about = set(_words(head.key.id)), set(_words(str(shown(head.attributes).get(ABOUT, ""))))
    return sum(3 if one in name else 2 if one in about else any(other.startswith(one) for other in name | about) for one in wanted)


async def _uses(looking: Looking, head: Head) -> int:
    """How often it was used: as its head says, unless uses lie in its mail, are being read or gathered."""
    if head.mail_at_s is None and head.wake_at_s is None and head.holder is None:
        uses = shown(head.attributes).get(USES, 0)
        return uses if isinstance(uses, int) else 0
    found = await _contents(looking, head.key)
    return 0 if found is None else _counted(_folded(found), found[1])


async def _contents(looking: Looking, key: Key) -> tuple[Log, list[Mail]] | None:
    """Its log and its mail at one moment: what was read of the mail while this looked stands in the log."""
    found = await looking.read(key)
    mail = list[Mail]()
    for _ in range(TRIES_MAX):
        if found is None:
            return None
        before, mail = found, await looking.mail(key)
        found = await looking.read(key)
        if found is not None and found.head.version == before.head.version:
            return found, mail
    return None if found is None else (found, mail)


def _folded(found: tuple[Log, list[Mail]]) -> Execution:
    return fold(found[0].head.key, log.decode_all(found[0].rows), found[0].head.root)


def _counted(execution: Execution, mail: list[Mail]) -> int:
    """The uses that are counted, those that have arrived, and those in the mail that have not come before."""
    counted = execution.state.get(USES, NOTHING)
    before = values.decode(counted, int | None, "the uses") or 0 if isinstance(counted, bytes) else 0
    letters = [messages.decode_message(one.body) for one in mail]
    new = {
        (one.sender, one.sent, one.key)
        for one in letters
        if isinstance(one, messages.Signal) and one.name == USED.name and not execution.seen.knows(one.sender, one.sent, one.key, execution.now_s)
    }
    return min(before + len(execution.mailbox) + len(new), USES_MAX)


async def _shape(looking: Looking, execution: Execution, mail: list[Mail]) -> Shape | None:
    """What it does, of its log, or of the mail that begins it."""
    given: Value | None = None if execution.started is None else execution.started.input
    for one in mail if given is None else ():
        letter = messages.decode_message(one.body)
        given = letter.input if isinstance(letter, messages.Start) else given
    if given is None:
        return None
    raw = given if isinstance(given, bytes) else values.intact(given.sha256, await looking.blob(given.sha256))
    decoded: tuple[tuple[Shape], dict[str, Any]] = values.decode(raw, tuple[tuple[Shape], dict[str, Any]], "what a composite does")
    return decoded[0][0]
