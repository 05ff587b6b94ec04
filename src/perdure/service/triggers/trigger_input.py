"""The input that a trigger gives to its workflow, made of its payload, and what the execution knows of the trigger. Nothing is looked up."""

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.carried import TRIGGER_CARRIED, Carried
from perdure.core.errors import BadExpression, BadValue, ExpressionFailed
from perdure.definitions.expr.jsonpath import JsonPathQuery, compile_jsonpath
from perdure.definitions.expr.plain_values import ValueKindError
from perdure.definitions.expr.template import compile_template
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerKind, TriggerRecord

FACTS_BYTES_MAX = 8 * 1024
"""The size of what an execution carries of its trigger."""


class TriggerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution knows of the trigger that has started it: ``@trigger``.

    `key` is the idempotency key of the start, `at_s` its time, and `about` what the kind adds, such as the ``tick`` of a schedule. `chain` are the ids of the
    triggers that led to this one, the first one first.
    """

    id: str
    name: str
    kind: TriggerKind
    key: str
    at_s: float
    about: dict[str, Any] = {}
    chain: tuple[str, ...] = ()


def facts_of(carried: Carried) -> TriggerFacts | None:
    """What an execution knows of its trigger; None if no trigger has started it, nor the execution that it descends from."""
    raw = next((value for name, value in carried if name == TRIGGER_CARRIED), None)
    return None if raw is None else values.decode(raw, TriggerFacts, "what is known of the trigger")


class TriggerScope:
    """The names that expressions of a trigger may read: values by the name of their root."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._roots = roots

    def root(self, name: str) -> Any:
        """See `ExpressionScope.root`."""
        return self._roots[name]

    def step(self, id: str) -> Any:
        """See `ExpressionScope.step`: there are no steps."""
        raise KeyError(id)

    def envelope(self, id: str) -> Any:
        """See `ExpressionScope.envelope`."""
        raise KeyError(id)


def checked_mapping(mapping: Mapping[str, str], fixed: Mapping[str, Any]) -> None:
    """Checks what the input of a trigger is made of.

    Raises:
        BadExpression: a path or a reference can't be read.
        BadValue: an input has both.
        MissingExtra: paths can't be read, since the libraries of definitions are not installed.
    """
    for name, path in mapping.items():
        _ = compile_jsonpath(path, f"/variableMapping/{name}")
        if name in fixed:
            raise BadValue(f"/input/{name}", name, "an input that the mapping does not have")
    _ = compile_template(dict(fixed))


def mapped_input(trigger: TriggerRecord, facts: TriggerFacts, payload: Any) -> dict[str, Any]:
    """The input by name that a trigger gives to its workflow: the fixed ones, and those of the mapping. A path that finds nothing gives none.

    Without any, the whole payload of a webhook or an event is the input ``payload``.

    Raises:
        BadValue: an input can't be made of this payload.
    """
    if not trigger.mapping and not trigger.input:
        return {"payload": payload} if trigger.kind in ("webhook", "event") else {}
    try:
        found: dict[str, Any] = dict(compile_template(trigger.input).evaluate(TriggerScope({"trigger": {**msgspec.to_builtins(facts), "payload": payload}})))
        for name, path in trigger.mapping.items():
            query = compile_jsonpath(path)
            values_found = query.find(payload)
            if values_found:
                found[name] = _mapped(query, values_found, path)
    except (ExpressionFailed, BadExpression, ValueKindError) as error:
        raise BadValue(f"the input of the trigger {trigger.name}", "made of the payload", f"one that its mapping can be applied to: {error}") from error
    return found


def _mapped(query: JsonPathQuery, found: list[Any], path: str) -> Any:
    """What a path of a mapping means: the one value that it finds or, if it can find several, all of them; with ``.length()``, how many these are."""
    if not query.singular:
        return len(found) if query.length else found
    if not query.length:
        return found[0]
    if not isinstance(found[0], list | dict | str):
        raise ValueKindError(f"{path} asks for the length of a {type(found[0]).__name__}", "only lists, objects and texts have one")
    return len(found[0])


def prompt_input(trigger: TriggerRecord, facts: TriggerFacts) -> dict[str, Any]:
    """The input by which the application receives the prompt of a trigger."""
    assert isinstance(trigger.config, ScheduleConfig), "only schedules have prompts"
    about = {name: facts.about[name] for name in ("tick", "number") if name in facts.about}
    return {"prompt": {"text": trigger.config.prompt, "trigger": trigger.id, "name": trigger.name, **about}}


def bounded_facts(facts: TriggerFacts) -> TriggerFacts:
    """The facts, without what the kind adds if that is too large to be carried."""
    return facts if len(msgspec.msgpack.encode(facts)) <= FACTS_BYTES_MAX else msgspec.structs.replace(facts, about={"omitted": "it is too large"})
