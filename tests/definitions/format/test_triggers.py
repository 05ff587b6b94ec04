"""Triggers are checked when a definition is read: the cron, the time zone, whose signature a webhook has, and to which inputs it maps."""

import re
from typing import Any

import pytest

from perdure.core.errors import BadDefinition
from perdure.definitions.format import validator
from perdure.definitions.kinds import config_checks


def complaints(trigger: Any, **more: Any) -> list[tuple[str, str, str]]:
    """What is wrong with a definition that has this trigger: code, pointer and suggestion."""
    document = {"perdure": 1, "name": "it", "triggers": [trigger], "steps": [{"id": "a", "set": {"x": 1}}], **more}
    try:
        return [(one.code, one.pointer, one.suggestion) for one in config_checks.read_checked(document).findings]
    except BadDefinition as error:
        return [(one.code, one.pointer, one.suggestion) for one in error.findings]


@pytest.mark.parametrize("text", ["30 2 * * 1-5", "*/5 0-6/2 1,15 jan-mar MON", "@daily", "5/10 * * * *", "0 0 29 2 *", "0 0 * * 7", "0 0 L * *"])
def test_a_cron_is_five_fields_or_an_alias(text: str) -> None:
    assert validator.cron_problem(text) == ""
    assert complaints({"schedule": {"cron": text, "timezone": "Europe/London", "overlap": "skip"}}) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("61 * * * *", "minute '61' is not 0 to 59"),
        ("* * * *", "five fields .* found 4"),
        ("* * * * * *", "found 6"),
        ("@dayly", "there is no '@dayly'"),
        ("0 0 30 2 *", "day-of-month '30' is not 1 to 31, in a month that has it"),
        ("1-0 * * * *", "minute '1-0' is not 0 to 59"),
        ("*/0 * * * *", "minute '\\*/0' is not 0 to 59"),
        ("² * * * *", "minute '²' is not 0 to 59"),
        ("* * * mai *", "1 to 12, or jan to dec"),
        ("1,, * * * *", "minute '1,,' is not 0 to 59"),
        ("nightly at two", "five fields"),
        ("0 " * 100_000, "five fields"),
    ],
)
def test_any_other_text_is_refused_with_the_field(text: str, why: str) -> None:
    assert re.search(why, validator.cron_problem(text))
    assert complaints({"schedule": {"cron": text}}) == [("bad_cron", "/triggers/0/schedule/cron", "")]


@pytest.mark.slow
@pytest.mark.parametrize(("zone", "meant"), [("Europe/Londn", "Europe/London"), ("../../etc/passwd", ""), ("Mars/Base", "")])
def test_a_time_zone_that_is_none_is_refused(zone: str, meant: str) -> None:
    assert complaints({"schedule": {"cron": "@daily", "timezone": zone}}) == [("bad_timezone", "/triggers/0/schedule/timezone", meant)]


@pytest.mark.parametrize(
    ("verify", "code"),
    [
        ({"scheme": "github", "secret": "@secrets.HOOK"}, []),
        ({"scheme": "generic", "secret": ["@secrets.NEW", "@secrets.OLD"], "header": "X-Signature"}, []),
        ({"scheme": "none"}, []),
        ({"scheme": "githb", "secret": "@secrets.HOOK"}, ["wrong_type"]),
        ({"secret": "@secrets.HOOK"}, ["missing_field"]),
        ({"scheme": "github"}, ["contradiction"]),
        ({"scheme": "none", "secret": "@secrets.HOOK"}, ["contradiction"]),
    ],
)
def test_a_webhook_says_whose_signature_it_has(verify: Any, code: list[str]) -> None:
    assert [one for one, _, _ in complaints({"webhook": {"path": "x", "verify": verify}})] == code


def test_a_webhook_maps_paths_of_its_body_to_inputs_that_there_are() -> None:
    inputs = {"branch": {"type": "string", "default": ""}}
    assert complaints({"webhook": {"path": "x", "map": {"branch": "$.ref"}}}, input=inputs) == []
    found = complaints({"webhook": {"path": "x", "map": {"brunch": "$.ref", "branch": "$.["}}}, input=inputs)
    assert found == [("unknown_input", "/triggers/0/webhook/map/brunch", "branch"), ("bad_expression", "/triggers/0/webhook/map/branch", "")]


def test_what_happens_to_the_one_before_is_one_of_four_things() -> None:
    assert [code for code, _, _ in complaints({"schedule": {"cron": "@daily", "overlap": "whatever"}})] == ["wrong_type"]
