"""Claims about the input that a trigger makes of its payload."""

from typing import Any

import pytest

from perdure.core.errors import BadValue
from perdure.service.triggers.trigger_input import TriggerFacts, mapped_input
from perdure.service.triggers.trigger_records import TriggerRecord, Verification, WebhookConfig

FACTS = TriggerFacts(id="t1", name="hook", kind="webhook", key="k", at_s=1.0, about={"event": "push"})
PAYLOAD = {"a": {"b": 1}, "list": [{"n": 1}, {"n": 2}], "text": "four", "nothing": None}


def made(mapping: dict[str, str], input: dict[str, Any] | None = None, payload: Any = PAYLOAD) -> dict[str, Any]:
    """The input of a webhook with this mapping."""
    config = WebhookConfig(path="in", verify=Verification(scheme="none"))
    about: dict[str, Any] = {"created_at_s": 0.0, "created_by": "ada", "updated_at_s": 0.0, "updated_by": "ada"}
    return mapped_input(TriggerRecord(id="t1", name="hook", config=config, mapping=mapping, input=input or {}, **about), FACTS, payload)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a.b", 1),
        ("$.a", {"b": 1}),
        ("$.nothing", None),
        ("$.list[*].n", [1, 2]),
        ("$.list[?@.n > 1].n", [2]),
        ("$.list.length()", 2),
        ("$.text.length()", 4),
        ("$.list[*].n.length()", 2),
        ("$", PAYLOAD),
    ],
)
def test_a_path_finds_a_value_or_all_of_several(path: str, expected: Any) -> None:
    assert made({"x": path}) == {"x": expected}


@pytest.mark.parametrize("path", ["$.none", "$.a.b.c", "$.list[9]", "$.list[?@.n > 9]"])
def test_a_path_that_finds_nothing_gives_no_input(path: str) -> None:
    assert made({"x": path}) == {}


def test_fixed_inputs_may_read_the_trigger() -> None:
    assert made({"x": "$.a.b"}, {"event": "@trigger.about.event", "who": "me"}) == {"x": 1, "event": "push", "who": "me"}


def test_without_any_the_payload_is_the_input() -> None:
    assert made({}) == {"payload": PAYLOAD}


@pytest.mark.parametrize("wrong", [({"x": "$.a.b.length()"}, None), ({}, {"x": "@trigger.about.none"})])
def test_an_input_that_can_not_be_made_is_refused(wrong: Any) -> None:
    with pytest.raises(BadValue, match="the input of the trigger hook"):
        made(*wrong)
