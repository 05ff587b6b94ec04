"""Templates of titles and texts: fields in braces, and references as definitions have them.

    {title} {text} {kind} {workflow} {execution} {link}   fields of the event
    @{event.kind} @{event.people} @{rule.name} @{count}   values; those in braces are its fields, `at` (the time as text), `id` and, for the app, `people`
    @@{                                                   the characters @{

What is inserted is not looked at again, so an event can't name anything. References are checked when a rule is saved.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from perdure.core.errors import BadExpression, BadValue, ExpressionFailed
from perdure.definitions.expr.plain_values import text_of_value
from perdure.definitions.expr.template import compile_template
from perdure.service.notifications.app_channel import NoticedEvent

TEMPLATE_CHARACTERS_MAX = 10_000
FIELDS = ("title", "text", "kind", "workflow", "execution", "link")
NAMES = ("event", "rule", "count")

_PART = re.compile(r"@@\{|@\{(?P<reference>[^{}]*)(?P<end>\}?)|\{(?P<field>\w+)\}")
_SAMPLE = NoticedEvent("e", "failure", "title", "text", "workflow", "execution", 0.0, "link")


class _TemplateScope:
    """The values of templates, which are named as steps are. There are no roots."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def root(self, name: str) -> Any:
        """See `ExpressionScope.root`."""
        raise KeyError(name)

    def step(self, id: str) -> Any:
        """See `ExpressionScope.step`."""
        return self._values[id]

    def envelope(self, id: str) -> Any:
        """See `ExpressionScope.envelope`."""
        raise KeyError(id)


def template_scope(event: NoticedEvent, rule: str, count: int) -> dict[str, Any]:
    """Returns what templates may refer to: an event, the name of the rule, and how many events go together."""
    at = datetime.fromtimestamp(event.at_s, UTC).isoformat(timespec="seconds")
    fields = {name: str(getattr(event, name)) for name in FIELDS}
    return {"event": {**fields, "id": event.id, "at": at, "people": list(event.people)}, "rule": {"name": rule}, "count": count}


def filled(template: str, scope: Mapping[str, Any]) -> str:
    """Returns a template with its fields and references filled in. What is no field stays as it is.

    Raises:
        ExpressionFailed, BadExpression: a reference finds nothing, or can't be read.
    """
    values = _TemplateScope(scope)

    def part(found: re.Match[str]) -> str:
        if found["reference"] is not None:
            return text_of_value(compile_template(f"@{{{found['reference']}}}").evaluate(values))
        if found["field"] is not None:
            return str(scope["event"].get(found["field"], found[0])) if found["field"] in FIELDS else found[0]
        return "@{"

    return _PART.sub(part, template)


def check_template(where: str, template: str) -> None:
    """Checks a template.

    Raises:
        BadValue: it is too long, or a reference can't be read, is not closed, or names what no event has.
    """
    if len(template) > TEMPLATE_CHARACTERS_MAX:
        raise BadValue(where, f"{len(template):,} characters", f"at most {TEMPLATE_CHARACTERS_MAX:,}")
    for found in _PART.finditer(template):
        if found["reference"] is None:
            continue
        if not found["end"]:
            raise BadValue(where, found[0][:100], "a reference that is closed, such as @{event.title}; @@{ stands for the characters @{")
        try:
            reads = compile_template(found[0]).reads
            if any(read.step not in NAMES for read in reads):
                raise BadValue(where, found[0][:100], f"a reference to {', '.join(NAMES[:-1])} or {NAMES[-1]}, such as @{{event.title}}")
            _ = filled(found[0], template_scope(_SAMPLE, "rule", 1))
        except (BadExpression, ExpressionFailed) as error:
            raise BadValue(where, found[0][:100], f"a reference that can be read: {error}") from error
