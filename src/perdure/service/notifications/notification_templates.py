"""Templates of titles and texts, with references as definitions have them.

    @{event.title} @{event.text} @{event.kind} @{event.workflow} @{event.execution} @{event.link} @{event.id} @{event.at} @{event.people}
    @{rule.name} @{count}   the rule, and how many events go together
    @@                      the character @

Only the channel of the application fills `@{event.people}`. What is inserted is not looked at again, so an event can't name anything. References are
checked when a rule is saved.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.core.errors import BadExpression, BadValue, ExpressionFailed
from perdure.definitions.expr.plain_values import text_of_value
from perdure.definitions.expr.template import compile_template
from perdure.service.notifications.app_channel import NoticedEvent

TEMPLATE_CHARACTERS_MAX = 10_000
NAMES = ("event", "rule", "count")

_SAMPLE = NoticedEvent("e", "failure", "title", "text", "workflow", "execution", 0.0, "link")


class TemplateScope:
    """What templates may refer to, named as steps are: an event, the name of its rule, and how many events go together. There are no roots."""

    def __init__(self, event: NoticedEvent, rule: str, count: int) -> None:
        at = datetime.fromtimestamp(event.at_s, UTC).isoformat(timespec="seconds")
        fields = {**msgspec.structs.asdict(event), "at": at, "people": list(event.people)}
        del fields["at_s"]
        self._values: Mapping[str, Any] = {"event": fields, "rule": {"name": rule}, "count": count}

    def root(self, name: str) -> Any:
        """See `ExpressionScope.root`."""
        raise KeyError(name)

    def step(self, id: str) -> Any:
        """See `ExpressionScope.step`."""
        return self._values[id]

    def envelope(self, id: str) -> Any:
        """See `ExpressionScope.envelope`."""
        raise KeyError(id)


def filled(template: str, scope: TemplateScope) -> str:
    """Returns a template with its references filled in.

    Raises:
        ExpressionFailed, BadExpression: a reference finds nothing, or can't be read.
    """
    return text_of_value(compile_template(template).evaluate(scope))


def check_template(where: str, template: str) -> None:
    """Checks a template.

    Raises:
        BadValue: it is too long, or a reference can't be read, is not closed, or names what no event has.
    """
    if len(template) > TEMPLATE_CHARACTERS_MAX:
        raise BadValue(where, f"{len(template):,} characters", f"at most {TEMPLATE_CHARACTERS_MAX:,}")
    try:
        if not {read.step for read in compile_template(template).reads} <= {*NAMES}:
            raise BadValue(where, template[:100], f"references to {', '.join(NAMES[:-1])} or {NAMES[-1]}, such as @{{event.title}}")
        _ = filled(template, TemplateScope(_SAMPLE, "rule", 1))
    except (BadExpression, ExpressionFailed) as error:
        raise BadValue(where, template[:100], f"references that can be read, such as @{{event.title}}: {error}") from error
