"""Claims about what a trigger may be: configs that are refused, each with the place of the mistake, and what a definition declares."""

from typing import Any

import pytest

from perdure.core.errors import BadExpression, BadValue
from perdure.service.triggers.trigger_records import EventConfig, ScheduleConfig, TriggerConfig, Verification, WebhookConfig
from perdure.service.triggers.trigger_specs import checked_config, declared_triggers

SIGNED = Verification(scheme="github", secrets=("HOOK",))
OPEN = Verification(scheme="none")


@pytest.mark.parametrize(
    ("config", "where"),
    [
        (WebhookConfig(path="release"), "/config/verify"),
        (WebhookConfig(path="", verify=SIGNED), "/config/path"),
        (WebhookConfig(path="/release", verify=SIGNED), "/config/path"),
        (WebhookConfig(path="a//b", verify=SIGNED), "/config/path"),
        (WebhookConfig(path="~other/x", verify=SIGNED), "/config/path"),
        (WebhookConfig(path="p" * 201, verify=SIGNED), "/config/path"),
        (WebhookConfig(path="release", method="post", verify=SIGNED), "/config/method"),
        (WebhookConfig(path="release", headers={"X Y": "1"}, verify=SIGNED), "/config/headers/X Y"),
        (WebhookConfig(path="release", verify=Verification(scheme="github")), "/config/verify/secrets"),
        (WebhookConfig(path="release", verify=Verification(scheme="none", secrets=("HOOK",))), "/config/verify/secrets"),
        (WebhookConfig(path="release", verify=Verification(scheme="github", secrets=("HOOK",), header="X")), "/config/verify/header"),
        (WebhookConfig(path="release", secret="hunter2"), "/config/secret"),
        (WebhookConfig(path="release", secret="@secrets.HOOK", verify=SIGNED), "/config/secret"),
        *(
            (WebhookConfig(path="release", verify=Verification(scheme=scheme, secrets=("HOOK",), encoding="base64")), "/config/verify/encoding")
            for scheme in ("github", "stripe", "slack", "standard_webhooks", "bearer")
        ),
        *(
            (WebhookConfig(path="release", verify=Verification(scheme=scheme, secrets=("HOOK",), tolerance_s=60)), "/config/verify/tolerance")
            for scheme in ("github", "generic", "bearer")
        ),
        (WebhookConfig(path="release", verify=Verification(scheme="none", tolerance_s=60)), "/config/verify/tolerance"),
        (ScheduleConfig(), "/config"),
        (ScheduleConfig(cron="@daily", every_s=60.0), "/config"),
        (ScheduleConfig(cron="61 * * * *"), "/config/cron"),
        (ScheduleConfig(every_s=0.5), "/config/everySeconds"),
        (ScheduleConfig(cron="@daily", timezone="Mars/Olympus"), "/config/timezone"),
        (ScheduleConfig(cron="@daily", timezone="../../etc/passwd"), "/config/timezone"),
        (ScheduleConfig(cron="@daily", starts_at_s=2.0, ends_at_s=1.0), "/config/endsAt"),
        (ScheduleConfig(cron="@daily", queued_max=0), "/config/queuedMax"),
        (WebhookConfig(path="in", verify=Verification(scheme="github", secrets=("HOOK",)), queued_max=0), "/config/queuedMax"),
        (ScheduleConfig(cron="@daily", target="orchestrator"), "/config/prompt"),
        (ScheduleConfig(cron="@daily", prompt="tidy up"), "/config/prompt"),
        (EventConfig(on=()), "/config/on"),
        (EventConfig(on=(" ",)), "/config/on"),
    ],
)
def test_a_config_that_is_wrong_is_refused_with_its_place(config: TriggerConfig, where: str) -> None:
    with pytest.raises(BadValue) as refused:
        checked_config(config)
    assert refused.value.what == where


def test_a_condition_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadExpression):
        checked_config(EventConfig(on=("failed",), where=({"ref": "@self.x", "eqals": 1},)))


def test_the_short_form_of_a_secret_is_a_signature_of_the_body() -> None:
    found = checked_config(WebhookConfig(path="release", secret="@secrets.HOOK"))
    assert found == WebhookConfig(path="release", verify=Verification(scheme="generic", secrets=("HOOK",), header="X-Signature"))


@pytest.mark.parametrize("verify", [OPEN, Verification(scheme="bearer", secrets=("HOOK",))])
def test_a_path_to_which_anybody_may_send_cannot_be_guessed_and_stays(verify: Verification) -> None:
    first, second = (checked_config(WebhookConfig(path="release", verify=verify)) for _ in range(2))
    assert isinstance(first, WebhookConfig) and isinstance(second, WebhookConfig)
    assert first.path.startswith("release/") and len(first.path) == len("release/") + 32 and first.path != second.path
    assert checked_config(WebhookConfig(path="release", verify=verify), first.path) == first
    assert checked_config(first) == first
    assert checked_config(WebhookConfig(path="other", verify=verify), first.path) != first


def test_a_definition_declares_triggers_by_name() -> None:
    document: dict[str, Any] = {
        "triggers": [
            {"schedule": {"cron": "30 2 * * 1-5", "timezone": "Europe/London", "jitter": "30s", "starts": "2027-01-01T00:00:00Z"}, "name": "nightly"},
            {"schedule": {"every": "5m"}},
            {"webhook": {"path": "release", "verify": {"scheme": "github", "secret": ["@secrets.NEW", "@secrets.OLD"]}, "map": {"branch": "$.ref"}}},
            {"event": {"on": "failed", "of": "order"}, "enabled": False},
            {"manual": {}, "with": {"branch": "main"}},
        ]
    }
    nightly, often, hook, failed, manual = declared_triggers(document)
    assert (nightly.name, often.name, hook.name, failed.name, manual.name) == (
        "nightly",
        "schedule-300.0",
        "webhook-release",
        "event-order-failed",
        "manual",
    )
    assert nightly.config == ScheduleConfig(cron="30 2 * * 1-5", timezone="Europe/London", jitter_s=30.0, starts_at_s=1_798_761_600.0)
    assert hook.config == WebhookConfig(path="release", verify=Verification(scheme="github", secrets=("NEW", "OLD")))
    assert (hook.mapping, manual.input, failed.enabled) == ({"branch": "$.ref"}, {"branch": "main"}, False)


@pytest.mark.parametrize(
    ("triggers", "where"),
    [
        ([{"manual": {}}, {"manual": {}}], "/document/triggers/1/name"),
        ([{"webhook": {"path": "a b"}}], "/document/triggers/0"),
        ([{"schedule": {"once": ["tomorrow"]}}], "/document/triggers/0"),
        ([{"manual": {}, "name": "a\nb"}], "/document/triggers/0"),
    ],
)
def test_what_a_definition_declares_is_checked(triggers: list[Any], where: str) -> None:
    with pytest.raises(BadValue) as refused:
        declared_triggers({"triggers": triggers})
    assert refused.value.what == where
