"""What a field does: a definition is run with it and without it, and the difference of their logs is what the field does.

The verbs, the fields and what may stand in them are those of the model, so a field that the format gains is held to this by itself.
"""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from perdure import Definition, Vote
from perdure.core import log_format
from perdure.core.operations import SpawnOperation
from perdure.definitions.format import model
from perdure.definitions.format.shapes import (
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    IdShape,
    ListShape,
    MapShape,
    NumberShape,
    SchemaShape,
    Shape,
    StepsShape,
    TextShape,
    WholeShape,
)
from perdure.definitions.format.validator import definition_findings
from perdure.definitions.kinds.config_checks import config_findings
from perdure.definitions.kinds.kind_registry import KindRegistry
from perdure.testing import World
from tests.definitions.graph.semantics.table import folded
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

INSIDE = [{"id": "inside", "tool": "SAY", "with": {"value": 1}}]
VERBS: dict[str, dict[str, Any]] = {
    "tool": {"tool": "SAY"},
    "ts": {"ts": "export default () => 1"},
    "python": {"python": "def main(input):\n    return 1"},
    "bash": {"bash": "true"},
    "http": {"http": "https://x.example"},
    "openapi": {"openapi": {"url": "https://x.example", "operation": "GET /pets"}},
    "sql": {"sql": {"connection": "shop", "query": "SELECT 1"}},
    "file": {"file": "a.txt"},
    "call": {"call": "child"},
    "agent": {"agent": {"prompt": "?"}},
    "agent_message": {"agent_message": {"content": "?", "await_response": True}},
    "llm": {"llm": {"prompt": "?"}},
    "pipeline": {"pipeline": [{"table_limit": {"count": 1}}], "with": {"rows": []}},
    "task": {"task": "work"},
    "approve": {"approve": {"title": "?"}},
    "listen": {"listen": {"names": ["go"]}},
    "sleep": {"sleep": 1},
    "emit": {"emit": {"name": "said"}},
    "if": {"if": True, "then": INSIDE},
    "parallel": {"parallel": INSIDE},
    "race": {"race": INSIDE},
    "do": {"do": INSIDE},
    "test": {"test": True},
    "loop": {"loop": {"items": [1]}},
    "return": {"return": True},
    "fail": {"fail": "no"},
    "set": {"set": {"x": 1}},
}
"""A step of each verb."""

FOR_PEOPLE = ("id", "name", "note", "ui")
"""The fields by which a step is known, or that are for people and editors."""

FAILING = {"when": {"expr": "input.missing > 1"}}
NEEDED = [{"id": "first", "tool": "SAY"}, {"id": "skipped", "tool": "SAY", "when": False}, {"id": "second", "sleep": 5}]
VALUES: dict[str, Any] = {
    "when": False,
    "needs": ["skipped"],
    "join": "any",
    "each": {"in": [1, 2]},
    "wait": False,
    "with": {"rows": [], "n": 1},
    "env": {"NAME": "x"},
    "transform": {"made": "@self"},
    "schema": {"enum": ["never"]},
    "repeat": {"until": True, "max": 2},
    "retry": {"max": 7},
    "timeout": 77,
    "idempotent": False,
    "on_rejected": "go_on",
    "undo": "SAY",
    "on_error": "go_on",
    "next": "after",
}
"""What is written in a field so that it does something; of a field that is not here, what the model says may stand there."""

WITHOUT: dict[str, dict[str, Any]] = {"on_error": FAILING, "join": {"needs": ["first", "second"]}}
"""What stands in the step with and without the field."""

OTHER = {("tool", "idempotent"): True}
"""What is written in a field beside one verb, where the same as elsewhere stands by default."""

FOR = {("call", "retry"): {"with": {"fail": True}}}
"""The same beside one verb."""

CHILD = {
    "perdure": 1,
    "name": "child",
    "input": {"fail": {"default": False}},
    "steps": [{"id": "inner", "tool": "SAY", "with": {"value": 1}}, {"id": "failing", "when": "@input.fail", "fail": "as it was told"}],
    "output": "@inner",
}


def some(shape: Shape) -> Any:
    """A value that suits a shape, and is not what stands there by default."""
    match shape:
        case TextShape() | IdShape():
            return "first"
        case FlagShape():
            return True
        case WholeShape(least) | NumberShape(least):
            return max(int(least), 0) + 3
        case ChoiceShape(values):
            return values[-1]
        case DurationShape():
            return 77
        case ConditionShape():
            return False
        case SchemaShape():
            return {"type": "string"}
        case StepsShape():
            return copy.deepcopy(INSIDE)
        case ListShape(of):
            return [some(of)]
        case MapShape(of):
            return {"x": some(of)}
        case FieldsShape(fields=fields, one_of=one_of):
            return {field.name: some(field.shape) for field in fields if field.required or field.name in one_of[:1]}
        case EitherShape(options):
            return some(options[-1])
    return 5


class FieldCase(NamedTuple):
    """A field beside a verb: the document with it, and the same without it."""

    verb: str
    field: str
    order: str
    place: str
    document: dict[str, Any]
    without: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.verb}-{self.field}-{self.order}-{self.place}"


PLACES = ("top", "do", "then", "each", "parallel", "on_error")
ORDERS = ("refs", "listed", "ports")


def cases(orders: tuple[str, ...] = ORDERS, places: tuple[str, ...] = PLACES) -> Iterator[FieldCase]:
    """Each field of a step beside each verb, in each order and place."""
    fields = [field for field in (*model.IDENTITY, *model.BESIDE, *model.MODIFIERS) if field.name not in FOR_PEOPLE and not field.required]
    for order in orders:
        for place in places:
            for verb in model.VERBS:
                for field in fields:
                    step = {
                        "id": "probe",
                        **copy.deepcopy(VERBS[verb.name]),
                        **(WITHOUT.get(field.name, {}) if order != "listed" or field.name != "join" else {}),
                        **FOR.get((verb.name, field.name), {}),
                    }
                    without = {name: value for name, value in step.items() if name != field.name}
                    added = {**without, field.name: OTHER.get((verb.name, field.name), value_of(field))}
                    yield FieldCase(verb.name, field.name, order, place, document(added, order, place), document(without, order, place))


def value_of(field: FormatField) -> Any:
    """What is written in a field."""
    return copy.deepcopy(VALUES[field.name]) if field.name in VALUES else some(field.shape)


def document(step: dict[str, Any], order: str, place: str) -> dict[str, Any]:
    """A definition with the step at its place, and others around it."""
    before = copy.deepcopy(NEEDED)
    if place == "top":
        return {"perdure": 1, "name": "it", "order": order, "steps": [*before, step, {"id": "after", "tool": "SAY"}]}
    steps = [*before, step]
    inner: dict[str, dict[str, Any]] = {
        "do": {"do": steps},
        "then": {"if": True, "then": steps},
        "each": {"each": {"in": ["only"]}, "do": steps},
        "parallel": {"parallel": steps},
        "on_error": {"fail": "first", "on_error": steps},
    }
    return {"perdure": 1, "name": "it", "order": order, "steps": [{"id": "outer", **inner[place]}]}


def refused(case: FieldCase) -> bool:
    """Whether the field is refused, or warned of, at its place or behind it."""
    had, has = (
        {(one.code, one.pointer) for one in (*definition_findings(made), *config_findings(made, KindRegistry()))} for made in (case.without, case.document)
    )
    return bool(has - had)


_OF_THE_TEXT = re.compile(r"Blob\(sha256='[0-9a-f]+', size_bytes=\d+\)")
"""What a log has of the definition's own text, which is another one with each field."""


def log_of(document: dict[str, Any], approves: bool = True) -> str:
    """All that a run of a definition does, as its log has it: who waits for a person, a message or a worker is given it."""
    kinds = {kind: lambda config, input, env=None: {"n": 1} for kind in ("ts", "python", "bash", "http", "openapi", "sql", "file", "llm", "pipeline")}
    called = Definition.of(CHILD, tools={"SAY": say})
    definition = Definition.of(document, tools={"SAY": say}, kinds=kinds, calls=[called], deployment=deployed(default=ModelScript("answer", "again")))
    with World() as world:
        world.mock("work", returns={"n": 1})
        return _log_of(world, definition, approves)


def _log_of(world: World, definition: Definition, approves: bool) -> str:
    run = world.start(definition)
    world.skip("10s")
    for pending in list(folded(world, run).open.values()):
        if isinstance(pending.op, SpawnOperation) and pending.op.workflow == "perdure.approval":
            world.run_of(run.key._replace(workflow="perdure.approval", id=pending.op.id)).send("vote", Vote("ada", approves))
    if run.status not in ("completed", "failed", "cancelled"):
        run.send("go", 1)
        world.skip("200s")
    found = world.machine.read(run.key)
    assert found is not None
    return _OF_THE_TEXT.sub("", repr(log_format.decode_rows(found.payloads)))


def say(value: Any = None, **more: Any) -> Any:
    """What it is given."""
    return value if value is not None else more


class Inner(NamedTuple):
    """A field of what stands behind a verb or a modifier: two documents, with it and without it."""

    name: str
    document: dict[str, Any]
    without: dict[str, Any]

    def __str__(self) -> str:
        return self.name


def inner_cases() -> Iterator[Inner]:
    """Each field of each mapping that a verb or a modifier may be, and of each mapping in these."""
    for verb in model.VERBS:
        yield from _inner(verb.name, VERBS[verb.name], verb.name, verb.shape)
    for field in (*model.IDENTITY, *model.MODIFIERS):
        if field.name not in FOR_PEOPLE:
            beside = "do" if "do" in field.verbs and field.name != "undo" else "tool"
            yield from _inner(field.name, VERBS[beside], field.name, field.shape)


def _inner(name: str, step: dict[str, Any], key: str, shape: Shape) -> Iterator[Inner]:
    found = _mapping(shape)
    if found is None:
        return
    base = {**some(found), **(step[key] if isinstance(step.get(key), dict) else {})}
    for field in found.fields:
        more = BESIDE.get((found.what, field.name), {})
        value = INNER.get((found.what, field.name), some(field.shape))
        others = [one for one in found.fields if one.name in found.one_of and one.name != field.name]
        if (found.what, field.name) in BOUNDS or field.required or value == field.default or (field.name in found.one_of and not others):
            continue
        dropped = {field.name, *(found.one_of if field.name in found.one_of or not found.one_of or set(found.one_of) & more.keys() else ())}
        rest = {name: one for name, one in base.items() if name not in dropped} | more
        without = rest | ({others[0].name: some(others[0].shape)} if field.name in found.one_of else {})
        order = "ports" if key == "next" else "refs"
        around = {name: one for name, one in step.items() if name != key}
        made = [document({"id": "probe", **around, key: one}, order, "top") for one in ({**rest, field.name: value}, without)]
        yield Inner(f"{name}.{field.name}", made[0], made[1])


INNER: dict[tuple[str, str], Any] = {
    ("repeat", "on_max"): "go_on",
    ("emit", "to"): {"workflow": "x", "id": "y"},
    ("next", "default"): "first",
    ("task", "queue"): "elsewhere",
}
"""What is written in a field of a mapping, where some value that suits does not do."""

BOUNDS = {("repeat", "max"), ("repeat", "endless"), ("emit", "body"), ("emit", "name")}
"""The fields of which one or the other must stand."""

BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("repeat", "keep"): {"until": False, "endless": True},
    **{("repeat", name): {"until": False, "max": 3} for name in ("on_max", "delay", "state", "undo")},
    **{("repeat", name): {"max": 3} for name in ("while", "until")},
    ("approve", "on_timeout"): {"timeout": 5},
    ("agent", "repairs"): {"schema": {"type": "string"}},
    ("llm", "repairs"): {"schema": {"type": "string"}},
}
"""What else stands in the mapping, with and without the field."""


def _mapping(shape: Shape) -> FieldsShape | None:
    match shape:
        case FieldsShape():
            return shape
        case EitherShape(options):
            return next((found for option in options if (found := _mapping(option)) is not None), None)
    return None


def trigger_cases() -> Iterator[Inner]:
    """Each field of a trigger, and of each mapping in one: with it and without it."""
    for kind in model.TRIGGER.one_of:
        whole = {kind: _whole(kind)}
        for field in model.TRIGGER.fields:
            if field.name not in model.TRIGGER.one_of and field.name not in FOR_PEOPLE:
                yield _trigger(f"{kind}-{field.name}", {**whole, field.name: _of_trigger(field)}, whole)
        yield from _parts(kind, model.TRIGGER.field(kind), lambda made, kind=kind: {kind: made})  # type: ignore[misc]  # mypy can't infer the default


def _parts(name: str, field: FormatField | None, placed: Callable[[Any], dict[str, Any]]) -> Iterator[Inner]:
    assert field is not None and isinstance(field.shape, FieldsShape)
    for one in field.shape.fields:
        needed = {other.name for other in field.shape.fields if other.required or other.name == "secret"} | set(field.shape.one_of[:1])
        rest = {other.name: _of_trigger(other) for other in field.shape.fields if other.name in needed and other.name != one.name}
        if one.name in field.shape.one_of[1:]:
            rest = {}
        if not one.required:
            yield _trigger(f"{name}.{one.name}", placed({**rest, one.name: _of_trigger(one)}), placed(rest))
        if isinstance(one.shape, FieldsShape):
            yield from _parts(f"{name}.{one.name}", one, lambda made, rest=rest, one=one: placed({**rest, one.name: made}))  # type: ignore[misc]  # as above


def _trigger(name: str, trigger: dict[str, Any], without: dict[str, Any]) -> Inner:
    document = {"perdure": 1, "name": "it", "input": {"n": {"default": 1}}, "steps": [{"id": "a", "set": {"x": 1}}]}
    return Inner(name, {**document, "triggers": [trigger]}, {**document, "triggers": [without]})


TRIGGER_VALUES: dict[str, Any] = {
    "cron": "@daily",
    "timezone": "Europe/London",
    "overlap": "queue",
    "method": "PUT",
    "map": {"n": "$.n"},
    "with": {"n": 2},
    "secret": "@secrets.HOOK",
    "scheme": "generic",
    "verify": {"scheme": "generic", "secret": "@secrets.HOOK"},
    "enabled": False,
}


def _of_trigger(field: FormatField) -> Any:
    return TRIGGER_VALUES[field.name] if field.name in TRIGGER_VALUES else some(field.shape)


def _whole(kind: str) -> dict[str, Any]:
    field = model.TRIGGER.field(kind)
    assert field is not None and isinstance(field.shape, FieldsShape)
    return {one.name: _of_trigger(one) for one in field.shape.fields if one.required or one.name in field.shape.one_of[:1]}
