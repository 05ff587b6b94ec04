"""Claims about templates of notifications: what they insert, what they leave, and what is refused when a rule is saved."""

import pytest

from perdure.core.errors import BadValue
from perdure.service.notifications.app_channel import NoticedEvent
from perdure.service.notifications.notification_templates import TemplateScope, check_template, filled

EVENT = NoticedEvent("e1", "asked", "Pay {link}?", "@{rule.name}", "asks", "a", 1_800_000_000.0, "/invoices/17", ("ada", "group:ops"))
SCOPE = TemplateScope(EVENT, "approvals", 3)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("@{event.kind} @{event.workflow}/@{event.execution} @{event.link}", "asked asks/a /invoices/17"),
        ("@{event.kind} by @{rule.name}, @{count} of them at @{event.at}", "asked by approvals, 3 of them at 2027-01-15T08:00:00+00:00"),
        ("@{event.people[1]?}: @{event.people}", 'group:ops: ["ada","group:ops"]'),
        ("@@channel {title} {{kind}} { @here", "@channel {title} {{kind}} { @here"),
        ("@@{event.kind} a@b.c @@ {id}", "@{event.kind} a@b.c @ {id}"),
        ("@{event.nothing?}", ""),
    ],
)
def test_a_template_reads_references_and_leaves_the_rest(template: str, text: str) -> None:
    check_template("/title", template)
    assert filled(template, SCOPE) == text


def test_what_is_inserted_is_not_looked_at_again() -> None:
    assert filled("@{event.title} @{event.text}", SCOPE) == "Pay {link}? @{rule.name}"


@pytest.mark.parametrize(
    "template",
    [
        "@{event.nothing}",
        "@{input.x}",
        "@{fetch.items}",
        "@{secrets.KEY}",
        "@{event.people[0]}",
        "@{event.",
        "@channel",
        "@channel, look",
        "@{}",
        "@{event..x}",
        "@{event.title} @{rule",
        "@{a {b} c}",
    ],
)
def test_a_reference_that_no_event_has_is_refused(template: str) -> None:
    with pytest.raises(BadValue) as refused:
        check_template("/body", template)
    assert refused.value.what == "/body"
