"""Descriptions of kinds and tools as plain data, for people and programs, with the forms in which their configs are filled in.

The forms of Perdure's own verbs follow from the model of the format, those of other kinds from their JSON Schemas. Verbs that the graph performs itself are
described like kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from perdure.code.declarations import Step
from perdure.definitions.format import format_schema, model, shapes
from perdure.definitions.format.model import SOURCE_FIELDS
from perdure.definitions.format.shapes import NOTHING, FieldsShape, FormatField, Shape
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds.kind_registry import entry_point_kinds, is_extra_installed

InputMeans = Literal["text", "source", "number", "flag", "choice", "duration", "condition", "schema", "step", "steps", "list", "mapping", "group", "value"]
"""How an input is entered. ``value`` is any JSON; a ``group`` has inputs of its own, a ``list`` and a ``mapping`` have one for all items."""


class FormInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """One input of a form. `references` and `secrets` say whether it may contain them; `of` are the inputs of a group, or the input of an item."""

    name: str
    means: InputMeans
    help: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    least: float | None = None
    references: bool = False
    secrets: bool = False
    of: tuple[FormInput, ...] = ()


MEANS: dict[type, InputMeans] = {
    shapes.FlagShape: "flag",
    shapes.DurationShape: "duration",
    shapes.ConditionShape: "condition",
    shapes.SchemaShape: "schema",
    shapes.IdShape: "step",
    shapes.StepsShape: "steps",
    shapes.NameShape: "text",
    shapes.PlainShape: "value",
}


def verb_inputs(verb: str, shape: Shape) -> tuple[FormInput, ...]:
    """The inputs of a verb: the fields of its mapping, or a single input named after the verb if it takes no mapping."""
    fields = _mapping(shape)
    if fields is None:
        return (_input(verb, shape, source=verb in SOURCE_FIELDS),)
    return tuple(_field(field, source=SOURCE_FIELDS.get(verb) == field.name) for field in fields.fields)


def schema_inputs(schema: Mapping[str, Any]) -> tuple[FormInput, ...]:
    """The inputs for the JSON Schema of an object; none for other schemas."""
    required = schema.get("required", ())
    return tuple(_of_property(name, about, name in required) for name, about in schema.get("properties", {}).items())


def _mapping(shape: Shape) -> FieldsShape | None:
    match shape:
        case FieldsShape():
            return shape
        case shapes.EitherShape(options):
            return next((found for option in options if (found := _mapping(option)) is not None), None)
    return None


def _field(field: FormatField, source: bool = False) -> FormInput:
    default = None if field.default is NOTHING else field.default
    return msgspec.structs.replace(_input(field.name, field.shape, source), help=field.doc, required=field.required, default=default)


def _input(name: str, shape: Shape, source: bool = False) -> FormInput:
    match shape:
        case shapes.TextShape(template=template, secrets=secrets):
            return FormInput(name, "source" if source else "text", references=template, secrets=secrets)
        case shapes.ValueShape(secrets=secrets):
            return FormInput(name, "value", references=True, secrets=secrets)
        case shapes.WholeShape(least) | shapes.NumberShape(least):
            return FormInput(name, "number", least=least)
        case shapes.ChoiceShape(values):
            return FormInput(name, "choice", choices=values)
        case shapes.ListShape(of):  # of items with several shapes, a form has the first, which is the usual one
            return FormInput(name, "list", of=(_input("", of.options[0] if isinstance(of, shapes.EitherShape) else of),))
        case shapes.MapShape(of):
            return FormInput(name, "mapping", of=(_input("", of),))
        case FieldsShape(fields=fields):
            return FormInput(name, "group", of=tuple(map(_field, fields)))
        case shapes.EitherShape(options):
            found = _mapping(shape)
            return _input(name, options[0] if found is None else found, source)
    template = isinstance(shape, shapes.DurationShape) and shape.template
    return FormInput(name, MEANS[type(shape)], references=template or isinstance(shape, shapes.ConditionShape))


_OF_TYPE: dict[str, InputMeans] = {"string": "text", "integer": "number", "number": "number", "boolean": "flag", "array": "list", "object": "mapping"}


def _of_property(name: str, about: Mapping[str, Any], required: bool) -> FormInput:
    kind = about.get("type")
    inner = schema_inputs(about) if kind == "object" else ()
    means: InputMeans = "choice" if "enum" in about else "group" if inner else _OF_TYPE.get(kind, "value") if isinstance(kind, str) else "value"
    of = inner or ((_of_property("", about["items"], False),) if kind == "array" and isinstance(about.get("items"), Mapping) else ())
    help, choices = str(about.get("description", "")), tuple(about.get("enum", ()))
    return FormInput(name, means, help, required, about.get("default"), choices, about.get("minimum"), references=True, of=of)


class KindDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a kind. `config` is the JSON Schema of the verb's value (of the field ``config``, for a kind of a package), `form` the same as a
    form, `by` the package that adds it, `ready` whether its extra is installed.
    """

    name: str
    version: str
    title: str
    summary: str
    icon: str
    ports: tuple[str, ...]
    by: str = "perdure"
    ready: bool
    extra: str
    idempotency: str
    limits: tuple[dict[str, Any], ...]
    capabilities: dict[str, Any] = {}
    config: dict[str, Any]
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    example: str
    form: tuple[FormInput, ...]


class ToolDescription(msgspec.Struct, frozen=True, rename={"attempts_max": "tries"}):
    """The description of a tool: its summary, the JSON Schema of its arguments, and how it runs."""

    name: str
    summary: str
    schema: dict[str, Any]
    queue: str
    idempotent: bool
    attempts_max: int
    timeout_s: float | None
    is_undone: bool


def describe_kind(one: Kind) -> KindDescription:
    """The description of a kind."""
    brought = entry_point_kinds().get(one.name)
    return KindDescription(
        name=one.name,
        version=one.version,
        title=one.title or one.name,
        summary=one.summary,
        icon=one.icon,
        ports=one.ports,
        by="perdure" if brought is None or brought.dist is None else brought.dist.name,
        ready=is_extra_installed(one.extra),
        extra=one.extra,
        idempotency=one.idempotency,
        limits=tuple(limit._asdict() for limit in one.limits),
        capabilities={name: value for name, value in vars(one.capabilities).items() if value not in (None, False)},
        config=config_schema(one),
        input=dict(one.input or {}),
        output=dict(one.output or {}),
        example=one.example,
        form=_form(one),
    )


def describe_verb(name: str, title: str, icon: str, idempotency: str, example: str, *, limits: tuple[Limit, ...] = (), extra: str = "") -> KindDescription:
    """The description of a verb that the graph performs itself."""
    verb = model.verbs_by_name()[name]
    return KindDescription(
        name=name,
        version="1",
        title=title,
        summary=verb.doc,
        icon=icon,
        ports=(*verb.ports, "error"),
        ready=is_extra_installed(extra),
        extra=extra,
        idempotency=idempotency,
        limits=tuple(limit._asdict() for limit in limits),
        config=format_schema.schema_of_shape(verb.shape),
        example=example,
        form=verb_inputs(name, verb.shape),
    )


def _form(one: Kind) -> tuple[FormInput, ...]:
    verb = model.verbs_by_name().get(one.name)
    return schema_inputs(one.config or {}) if verb is None else verb_inputs(one.name, verb.shape)


def config_schema(one: Kind) -> dict[str, Any]:
    """The JSON Schema of a kind's config; that of Perdure's own verbs comes from the format."""
    verb = model.verbs_by_name().get(one.name)
    if one.config is not None or verb is None:
        return dict(one.config or {})
    return format_schema.schema_of_shape(verb.shape)


def describe_tool(name: str, step: Step[Any, Any, Any]) -> ToolDescription:
    """The description of a tool."""
    summary = (getattr(step.fn, "__doc__", "") or "").strip().split("\n\n")[0].replace("\n", " ")
    return ToolDescription(name, summary, arguments_schema(step), step.queue, step.declares_repeat, step.rule.max, step.timeout_s, bool(step.handlers))


def arguments_schema(step: Step[Any, Any, Any]) -> dict[str, Any]:
    """The JSON Schema of a step's named arguments. A type without a schema accepts anything."""
    return step.codec.schema()


def search_descriptions(words: str, things: Iterable[KindDescription | ToolDescription], limit: int = 10) -> Iterator[KindDescription | ToolDescription]:
    """The descriptions that match a search, best first: by the number of words found in the name, then in the rest."""
    wanted = words.casefold().split()
    ranked = [(sum(word in one.name.casefold() for word in wanted), sum(word in _text(one) for word in wanted), one) for one in things]
    found = sorted((one for one in ranked if one[1]), key=lambda one: (-one[0], -one[1], one[2].name))
    return (one for _, _, one in found[:limit])


def _text(one: KindDescription | ToolDescription) -> str:
    properties: Mapping[str, Any] = one.schema.get("properties", {}) if isinstance(one, ToolDescription) else {}
    title = one.title if isinstance(one, KindDescription) else ""
    return " ".join((one.name, one.summary, title, *properties)).casefold()


_TOOL = """
perdure: 1
name: order
input: {cents: {type: integer, default: 500}}
steps:
  - id: pay
    tool: charge
    with: {cents: "@input.cents"}
    retry: {max: 3, wait: 1s}
    undo: {tool: refund, with: {charge: "@self.id"}}
output: "@pay.id"
"""
_CALL = """
perdure: 1
name: parent
order: listed
steps:
  - {id: rounded, call: "py:math.floor", with: 2.5}
  - {id: receipt, call: receipt@^1, with: {pieces: "@rounded"}}
output: "@receipt"
"""
_TASK = """
perdure: 1
name: thumbnails
input: {images: {type: array, default: [a.png, b.png]}}
steps:
  - id: shrink
    each: {in: "@input.images", as: image, concurrency: 10}
    task: {type: shrink, heartbeat: 30s}
    with: {image: "@image"}
    timeout: 10m
output: "@shrink"
"""
_AGENT = """
perdure: 1
name: help
order: ports
input: {ticket: {type: string, default: I was charged twice}}
steps:
  - id: triage
    agent:
      model: small
      prompt: "Look into this, and say who is to deal with it: @{input.ticket}"
      tools: [find_payments]
      budget: {calls: 5, wall: 10m}
    next: {choose: [billing, support], default: support}
  - {id: billing, set: {team: billing}}
  - {id: support, set: {team: support}}
"""
_AGENT_MESSAGE = """
perdure: 1
name: remind
order: listed
steps:
  - {id: tell, agent_message: My name is Ada.}
  - {id: ask, agent_message: {content: What is my name?, await_response: true}}
output: "@ask"
"""


def built_in_verbs() -> dict[str, KindDescription]:
    """The descriptions of these verbs by name."""
    found = (
        describe_verb("tool", "Tool", "wrench", "only where the tool (`@step(idempotent=True)`) or the step declares it; else it ends as `interrupted`", _TOOL),
        describe_verb("call", "Function or workflow", "call_split", "a child that exists is joined, never started twice; of a function, as of a tool", _CALL),
        describe_verb(
            "task",
            "Work in a queue",
            "inbox",
            "yes, unless the step says `idempotent: false`",
            _TASK,
            limits=(Limit("lease of a worker", "60 s", "1 h", "the work goes to another worker"),),
        ),
        describe_verb(
            "agent",
            "Agent",
            "robot",
            "every model call and every tool call is recorded by itself; a tool that may not be repeated is reported to the model as interrupted",
            _AGENT,
            limits=(
                Limit("calls of the model", "25", None, "it fails with `exceeded_calls`"),
                Limit("calls of tools", "10 for each call of the model", None, "it fails with `exceeded_calls`, before it uses those that are too many"),
                Limit("tokens, cost, time", "any", None, "it fails, and says which"),
            ),
            extra="agents",
        ),
        describe_verb(
            "agent_message",
            "Message to the agent",
            "chat",
            "it is sent once",
            _AGENT_MESSAGE,
            limits=(Limit("time for an answer", "5 min", None, "the step fails with `timeout`"),),
            extra="agents",
        ),
    )
    return {one.name: one for one in found}
