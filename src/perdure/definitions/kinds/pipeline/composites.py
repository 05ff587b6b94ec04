"""Composites: pipelines that were used at least twice. Each is a tool with a name, found by words and called by its name.

The shape of a pipeline is what it does apart from its data: operations in one spelling without defaults, a name and a description. References and literal
rows differ between uses, so they become inputs of the shape: ``@fetch.min`` becomes ``@input.min``. Pipelines of one shape have one name.

An execution of a workflow in `perdure.code.builtin_workflows`, whose id is the name, counts the uses. This module reads its log and its pending messages, so
that a use is found as soon as its result is durable, whether or not an engine has processed it.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.builtin_workflows import DESCRIPTION, USED_SIGNAL, USES, USES_MAX, CompositeDefinition
from perdure.code.declarations import Step
from perdure.code.durations import whole_number
from perdure.code.step_environment import current_resources
from perdure.core import log_format, messages, values
from perdure.core.attributes import indexed_attribute_values
from perdure.core.envelopes import QueuedMessage
from perdure.core.errors import BadExpression
from perdure.core.execution import Execution
from perdure.core.operations import COMPOSITE_WORKFLOW
from perdure.core.paths import Key
from perdure.core.replay import fold_events
from perdure.core.values import ENCODED_NONE, Value
from perdure.definitions.expr import references, template
from perdure.definitions.expr.plain_values import shortened
from perdure.definitions.expr.references import Reference
from perdure.definitions.format.canonical_form import canonical_json
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.definitions.kinds.pipeline import pipeline_runner, row_conditions
from perdure.definitions.kinds.pipeline.pipeline_limits import DEFAULT_LIMITS, PipelineFailed, PipelineLimits
from perdure.definitions.kinds.pipeline.pipeline_rows import Row
from perdure.definitions.kinds.pipeline.pipeline_runner import OPERATIONS, ROWS, OperationCall, http_kind_factory, run_operations
from perdure.stores.protocol import Head, HeadFilter, ReadOnlyStore, StoredLog, head_position

HASH_CHARACTERS = 12
NAME_CHARACTERS_MAX = 48
DESCRIPTION_CHARACTERS_MAX = 300
_STRANGE = re.compile(r"[^a-z0-9]+")


def pipeline_shape(ops: Sequence[Any], resolved: bool = False) -> CompositeDefinition | None:
    """The shape of operations; None if they are no pipeline. With `resolved` there are no references, and an @ is literal."""
    found = [pipeline_runner.parse_operation(one, "") for one in pipeline_runner.with_fields(list(ops))]
    spelled = [one for one in found if isinstance(one, OperationCall)]
    if len(spelled) < len(found) or not spelled:
        return None
    inputs = _ShapeInputs()
    pipeline: list[Any] = []
    try:
        for one in spelled:
            defaults = OPERATIONS[one.name].defaults
            said = {name: value for name, value in one.arguments.items() if name not in defaults or defaults[name] != value}
            given = row_conditions.literal_template(said) if resolved else said
            pipeline.append({one.name: _joining(given, inputs) if one.name == "join" else inputs.named(given)})
    except BadExpression:
        return None  # what it fails with is said where it runs
    rows = () if spelled[0].name == "http_request" and not spelled[0].arguments.get("into") else (ROWS,)
    digest = sha256(canonical_json(pipeline).encode()).hexdigest()[:HASH_CHARACTERS]
    words = [_operation_words(one) for one in spelled]
    name = _STRANGE.sub("_", "_".join(short for short, _ in words).lower()).strip("_")[:NAME_CHARACTERS_MAX].strip("_")
    description = shortened("; ".join(said for _, said in words), DESCRIPTION_CHARACTERS_MAX)
    described = f"{description[:1].upper()}{description[1:]}"
    made = {one.arguments["into"] for one in spelled if one.name == "http_request" and isinstance(one.arguments.get("into"), str)}
    tables = tuple(one for one in inputs.tables if one not in made)
    return CompositeDefinition(f"{name}_{digest}", described, pipeline, (*rows, *tables, *inputs.values.values()), tables)


class _ShapeInputs:
    """The inputs of a shape: one for each reference and each table, with unique names."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.tables: list[str] = []

    def named(self, value: Any) -> Any:
        """A value, with each reference made one to an input."""
        match value:
            case str() if "@" in value:
                return self._text(value)
            case list():
                return [self.named(item) for item in value]
            case dict():
                return {name: self.named(item) for name, item in value.items()}
            case _:
                return value

    def _text(self, value: str) -> str:
        if value[0] == "@" and value[1:2] not in ("@", "{"):
            ref = references.parse_reference(value)
            return f"@input.{self._name(ref)}{'?' if ref.optional else ''}"
        parts = template.merge_texts(template.text_parts(value, ""))
        return "".join(part.replace("@", "@@") if isinstance(part, str) else f"@{{input.{self._name(part)}{'?' if part.optional else ''}}}" for part in parts)

    def _name(self, ref: Reference) -> str:
        found = self.values.get(ref.written)
        return self.values.setdefault(ref.written, self._own(ref)) if found is None else found

    def _own(self, ref: Reference) -> str:
        last = next((key for key in reversed(ref.path) if isinstance(key, str)), ref.step or ref.root)
        base = _STRANGE.sub("_", last.lower()).strip("_") or "value"
        return self._free(base if base[0].isalpha() else f"value_{base}")

    def _free(self, base: str) -> str:
        taken = {ROWS, *self.tables, *self.values.values()}
        return next(name for number in range(1, len(taken) + 2) if (name := base if number == 1 else f"{base}_{number}") not in taken)

    def table(self, given: Any) -> str:
        """The name of a table: its own, or one for rows that stand where it should, or for what a reference leads to."""
        if isinstance(given, str) and not given.startswith("@"):
            name = given
        else:
            is_one = isinstance(given, str) and given[1:2] not in ("@", "{")
            name = self._own(references.parse_reference(given)) if is_one else self._free("table")
        if name not in self.tables:
            self.tables.append(name)
        return name


def _joining(arguments: Mapping[str, Any], inputs: _ShapeInputs) -> dict[str, Any]:
    """A join, whose other table is one of the input."""
    others = {name: value for name, value in arguments.items() if name != "with"}
    return {"with": inputs.table(arguments.get("with")), **inputs.named(others)}


def _operation_words(one: OperationCall) -> tuple[str, str]:
    """Words that describe an operation, for a name and for a sentence."""
    given = one.arguments
    match one.name:
        case "http_request":
            host = re.sub(r"^\w+://", "", _text(given.get("url"))).split("/")[0]
            return f"{_text(given.get('method', 'get'))} {host}", f"asks {_text(given.get('url'))} ({_text(given.get('method', 'GET')).upper()})"
        case "table_sort":
            fields = _fields(given.get("field", given.get("by")))
            order = " downwards" if given.get("order") == "desc" else ""
            return f"sort {fields}{order[:5]}", f"sorts by {fields}{order}"
        case "table_filter":
            fields = " ".join(dict.fromkeys(_asked(given.get("condition"))))
            return f"filter {fields}", f"keeps rows by {fields or 'a condition'}"
        case "table_select":
            return "select", f"selects {_fields(given.get('fields'))}"
        case "top_k":
            by = f" by {_fields(given['field'])}" if "field" in given else ""
            return f"top {_text(given.get('k'))}{by}", f"takes the first {_text(given.get('k'))}{by}"
        case "groupby":
            aggregates = given.get("aggregates")
            of = ", ".join(aggregates) if isinstance(aggregates, dict) else "count"
            return f"by {_fields(given.get('by'))}", f"groups by {_fields(given.get('by')) or 'nothing'} ({of})"
        case "join":
            other = given.get("with")
            called = other if isinstance(other, str) else "rows"
            return f"join {called}", f"joins {called} ({_text(given.get('how', 'inner'))}) on {_fields(given.get('on'))}"
        case "jq_transform":
            return "jq", f"transforms by jq {shortened(_text(given.get('program')), 60)}"
        case "regex_extract":
            return f"extract {_text(given.get('field'))}", f"extracts from {_text(given.get('field'))}"
        case _:
            return f"date {_text(given.get('field'))}", f"reads {_text(given.get('field'))} as a date"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _fields(value: Any) -> str:
    match value:
        case str():
            return value.removeprefix("-")
        case {"field": str(field)}:
            return field
        case dict():
            return " ".join(map(str, value))
        case list():
            return " ".join(filter(None, map(_fields, value)))
        case _:
            return ""


def _asked(condition: Any) -> list[str]:
    """The fields that a condition asks for, as far as rows name them."""
    match condition:
        case {"field": str(field)}:
            return [field]
        case list():
            return [field for one in condition for field in _asked(one)]
        case dict():
            return [field for one in condition.values() if isinstance(one, dict | list) for field in _asked(one)]
        case _:
            return []


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
    """A composite: its name, description, number of uses (10,000 means that many or more), operations and inputs."""

    name: str
    description: str
    uses: int
    pipeline: list[Any]
    inputs: tuple[str, ...]


async def search_composites(looking: ReadOnlyStore, query: str, limit: int = 10, tenant: str = "default") -> list[Composite]:
    """The composites whose name, description or fields have words of `query`, those with more of them first, then those that were used more often, then by
    name.

    A word in the name counts 3, one elsewhere 2, the beginning of one 1. A query without words means all.

    Raises:
        BadValue: the limit is no number from 1.
    """
    _ = whole_number(limit, "limit")
    wanted = _words(query)
    found = list[tuple[int, int, str]]()
    async for head in _heads(looking, tenant):
        score = _score(wanted, head)
        if (score or not wanted) and (uses := await _uses(looking, head)) >= PROMOTED_FROM:
            found.append((-score, -uses, head.key.id))
    best = [await get_composite(looking, name, tenant) for _, _, name in sorted(found)[:limit]]
    return [one for one in best if one is not None]


async def get_composite(looking: ReadOnlyStore, name: str, tenant: str = "default") -> Composite | None:
    """The composite of a name; None, if there is none, or not enough uses of it."""
    found = await _contents(looking, Key(tenant, COMPOSITE_WORKFLOW, name))
    if found is None or found[0].head.status not in ALIVE:
        return None
    execution, queued = _folded(found), found[1]
    shape, uses = await _composite_shape(looking, execution, queued), _counted(execution, queued)
    return None if shape is None or uses < PROMOTED_FROM else Composite(shape.name, shape.description, uses, shape.pipeline, shape.inputs)


async def run_composite(
    looking: ReadOnlyStore,
    name: str,
    inputs: Mapping[str, Any],
    tenant: str = "default",
    deployment: Deployment = NOTHING_MORE,
    bounds: PipelineLimits = DEFAULT_LIMITS,
) -> list[Row]:
    """The rows that a composite makes of its inputs.

    Raises:
        PipelineFailed: there is no such composite, an input is missing, or an operation can't do its work.
        OperationFailed, RetryAfter: as `run`.
    """
    return await run_operations(*await resolve_composite(looking, name, inputs, tenant), http_kind_factory(deployment), bounds)


async def resolve_composite(looking: ReadOnlyStore, name: str, inputs: Mapping[str, Any], tenant: str) -> tuple[list[Any], dict[str, Any]]:
    """The operations of a composite with its inputs in them, and the tables among these.

    Raises:
        PipelineFailed: there is no such composite, or an input is missing.
    """
    composite = await get_composite(looking, name, tenant)
    if composite is None:
        raise PipelineFailed(-1, "", f"there is no composite {name!r}; a pipeline becomes one with its second use, and search finds it by words")
    if missing := [one for one in composite.inputs if inputs.get(one) is None]:
        raise PipelineFailed(-1, "", f"the composite {name} takes {', '.join(composite.inputs)}; {', '.join(missing)} is missing in its input")
    scope: Any = _InputScope(inputs)
    ops: list[Any] = template.compile_template(composite.pipeline).evaluate(scope)
    values = {read.path[0] for read in template.compile_template(composite.pipeline).reads}
    return ops, {one: inputs[one] for one in composite.inputs if one not in values}


def composite_tool(composite: Composite, deployment: Deployment = NOTHING_MORE) -> Step[Any, Any, Any]:
    """A composite as a tool: a step with its name that takes its inputs by name, for `Definition.of(..., tools=...)` or an agent."""
    from perdure.code.step_environment import step_info

    async def call(**inputs: Any) -> list[Row]:
        return await run_composite(current_resources.get().store, composite.name, inputs, step_info().execution.tenant, deployment)

    call.__doc__ = f"{composite.description}. Inputs: {', '.join(composite.inputs)}."
    return Step(call, name=composite.name)


class _InputScope:
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


async def _heads(looking: ReadOnlyStore, tenant: str) -> AsyncIterator[Head]:
    which, seen = HeadFilter(tenant=tenant, workflow=COMPOSITE_WORKFLOW, statuses=ALIVE, limit=PAGE), 0
    while seen < SEARCHED_MAX and (heads := await looking.heads(which)):
        for head in heads:
            yield head
        seen += len(heads)
        which = msgspec.structs.replace(which, after=head_position(heads[-1]))


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def _score(wanted: list[str], head: Head) -> int:
    name, about = set(_words(head.key.id)), set(_words(str(indexed_attribute_values(head.attributes).get(DESCRIPTION, ""))))
    return sum(3 if one in name else 2 if one in about else any(other.startswith(one) for other in name | about) for one in wanted)


async def _uses(looking: ReadOnlyStore, head: Head) -> int:
    """The number of uses: from the head, unless further uses are pending."""
    if head.message_at_s is None and head.wake_at_s is None and head.holder is None:
        uses = indexed_attribute_values(head.attributes).get(USES, 0)
        return uses if isinstance(uses, int) else 0
    found = await _contents(looking, head.key)
    return 0 if found is None else _counted(_folded(found), found[1])


async def _contents(looking: ReadOnlyStore, key: Key) -> tuple[StoredLog, list[QueuedMessage]] | None:
    """The log and the pending messages at one moment. A message that is handled during the reading appears in the log."""
    found = await looking.read(key)
    queued = list[QueuedMessage]()
    for _ in range(TRIES_MAX):
        if found is None:
            return None
        before, queued = found, await looking.messages(key)
        found = await looking.read(key)
        if found is not None and found.head.version == before.head.version:
            return found, queued
    return None if found is None else (found, queued)


def _folded(found: tuple[StoredLog, list[QueuedMessage]]) -> Execution:
    return fold_events(found[0].head.key, log_format.decode_rows(found[0].payloads), found[0].head.root)


def _counted(execution: Execution, queued: list[QueuedMessage]) -> int:
    """The uses that are counted, those that have arrived, and those in the store that are new."""
    counted = execution.state.get(USES, ENCODED_NONE)
    before = values.decode(counted, int | None, "the uses") or 0 if isinstance(counted, bytes) else 0
    decoded = [messages.decode_execution_message(one.body) for one in queued]
    new = {
        (one.sender, one.sent, one.key)
        for one in decoded
        if isinstance(one, messages.SignalMessage) and one.name == USED_SIGNAL.name and not execution.seen.knows(one.sender, one.sent, one.key, execution.now_s)
    }
    return min(before + len(execution.mailbox) + len(new), USES_MAX)


async def _composite_shape(looking: ReadOnlyStore, execution: Execution, queued: list[QueuedMessage]) -> CompositeDefinition | None:
    """The shape of a composite, from its log or from the pending message that starts it."""
    given: Value | None = None if execution.started is None else execution.started.input
    for one in queued if given is None else ():
        message = messages.decode_execution_message(one.body)
        given = message.input if isinstance(message, messages.StartMessage) else given
    if given is None:
        return None
    raw = given if isinstance(given, bytes) else values.verified_payload(given.sha256, await looking.blob(given.sha256))
    decoded: tuple[tuple[CompositeDefinition], dict[str, Any]] = values.decode(raw, tuple[tuple[CompositeDefinition], dict[str, Any]], "what a composite does")
    return decoded[0][0]
