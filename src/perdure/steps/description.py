"""Descriptions: kinds and tools as people and programs look at them, plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from perdure.programs.code.declare import Step
from perdure.programs.format import model, published
from perdure.programs.graph.kind import Kind, Limit
from perdure.steps import forms
from perdure.steps.forms import Input
from perdure.steps.registry import installed, is_installed


class KindShown(msgspec.Struct, frozen=True, kw_only=True):
    """A kind. `config` is the JSON Schema of what stands behind its verb (of a kind that a package brings, of the field ``config``), `form` the same as it
    is filled in, `by` the package that brings it, `ready` whether what it takes is installed."""

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
    form: tuple[Input, ...]


class ToolShown(msgspec.Struct, frozen=True):
    """A tool that definitions may use: what it says of itself, the JSON Schema of its arguments, and how it is performed."""

    name: str
    summary: str
    schema: dict[str, Any]
    queue: str
    idempotent: bool
    tries: int
    timeout_s: float | None
    is_undone: bool


def kind(one: Kind) -> KindShown:
    """A kind as it is shown."""
    brought = installed().get(one.name)
    return KindShown(
        name=one.name,
        version=one.version,
        title=one.title or one.name,
        summary=one.summary,
        icon=one.icon,
        ports=one.ports,
        by="perdure" if brought is None or brought.dist is None else brought.dist.name,
        ready=is_installed(one.extra),
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


def shown_verb(name: str, title: str, icon: str, idempotency: str, example: str, *, limits: tuple[Limit, ...] = (), extra: str = "") -> KindShown:
    """A verb that the walk does itself, as kinds are shown."""
    verb = model.verbs()[name]
    return KindShown(
        name=name,
        version="1",
        title=title,
        summary=verb.doc,
        icon=icon,
        ports=(*verb.ports, "error"),
        ready=is_installed(extra),
        extra=extra,
        idempotency=idempotency,
        limits=tuple(limit._asdict() for limit in limits),
        config=published.of_shape(verb.shape),
        example=example,
        form=forms.of_verb(name, verb.shape),
    )


def _form(one: Kind) -> tuple[Input, ...]:
    verb = model.verbs().get(one.name)
    return forms.of_schema(one.config or {}) if verb is None else forms.of_verb(one.name, verb.shape)


def config_schema(one: Kind) -> dict[str, Any]:
    """The JSON Schema of what a kind is told: of Perdure's own verbs, as the format has it."""
    verb = model.verbs().get(one.name)
    if one.config is not None or verb is None:
        return dict(one.config or {})
    return published.of_shape(verb.shape)


def tool(name: str, step: Step[Any, Any, Any]) -> ToolShown:
    """A tool as it is shown."""
    summary = (getattr(step.fn, "__doc__", "") or "").strip().split("\n\n")[0].replace("\n", " ")
    return ToolShown(name, summary, arguments(step), step.queue, step.declares_repeat, step.rule.max, step.timeout_s, bool(step.handlers))


def arguments(step: Step[Any, Any, Any]) -> dict[str, Any]:
    """The JSON Schema of the named arguments of a step; of types that have none, anything."""
    return step.codec.schema()


def search(words: str, things: Iterable[KindShown | ToolShown], limit: int = 10) -> Iterator[KindShown | ToolShown]:
    """Those that fit a search, best first: by how many of the words stand in the name, and then in the rest of what they say."""
    wanted = words.casefold().split()
    ranked = [(sum(word in one.name.casefold() for word in wanted), sum(word in _text(one) for word in wanted), one) for one in things]
    found = sorted((one for one in ranked if one[1]), key=lambda one: (-one[0], -one[1], one[2].name))
    return (one for _, _, one in found[:limit])


def _text(one: KindShown | ToolShown) -> str:
    properties: Mapping[str, Any] = one.schema.get("properties", {}) if isinstance(one, ToolShown) else {}
    title = one.title if isinstance(one, KindShown) else ""
    return " ".join((one.name, one.summary, title, *properties)).casefold()
