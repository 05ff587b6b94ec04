"""The records of triggers.

A trigger belongs to a definition, which declares it by its name, to code, or to nobody: then people and programs change it. Its `config` says what it is, and
is changed by whom it belongs to. Whether it is enabled, and a pause, are the state of its operators, which a new version of the definition leaves as it is. A
trigger that its definition no longer declares stays as a record that is *withdrawn*, so that this state returns with it.

What changes often is no part of the record: the last run is the newest execution that has the trigger among its attributes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from perdure.core.attributes import AttributeValue
from perdure.definitions.format.model import SCHEMES
from perdure.service.record_kinds import RecordKind
from perdure.stores.records import RecordChange

TriggerKind = Literal["manual", "webhook", "schedule", "event"]
Overlap = Literal["allow", "skip", "queue", "cancel"]
"""What a tick does while an earlier execution of the trigger is in progress: it starts another one, is skipped, waits for its turn, or cancels the other."""

VerificationScheme = Literal["github", "stripe", "slack", "standard_webhooks", "generic", "bearer", "none"]
assert set(get_args(VerificationScheme)) == set(SCHEMES), "definitions and the API know the same schemes"

TriggerOwner = Literal["", "definition", "code"]


TIMED_SCHEMES: frozenset[VerificationScheme] = frozenset(("stripe", "slack", "standard_webhooks"))
"""The schemes whose senders always sign a time."""

TOLERANCE_S = 300.0


class Verification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the sender of a webhook is verified. `secrets` are names of secrets, any of which may sign: several during a rotation.

    The others are for ``generic``: the `header` with the signature, what stands before it there (`prefix`), its `encoding`, and the header with the time in
    seconds (`timestamp_header`; then the time and a dot come before the body that is signed). A time may differ by `tolerance_s` from that of the store.
    """

    scheme: VerificationScheme
    secrets: tuple[str, ...] = ()
    header: str = ""
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    timestamp_header: str = ""
    tolerance_s: float = TOLERANCE_S


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="webhook", tag_field="type"):
    """A request to ``/webhooks/{path}`` starts an execution. `headers` are those that a request must have, with these values (empty: any value).

    `secret` is short for `verify` with the scheme ``generic`` and this secret. With ``respond: result``, the answer is the result of the execution, if it ends
    within `respond_within_s`. The header `delivery_header` has the id of a delivery, of senders whose scheme has none.

    At most `active_max` executions of the trigger are in progress at a time (0: any number), and up to `queued_max` more that have not ended may be there.
    Without `active_max`, there are at most `queued_max` that have not ended.
    """

    path: str = ""
    method: str = "POST"
    secret: str = ""
    headers: dict[str, str] = {}
    verify: Verification | None = None
    respond: Literal["accepted", "result"] = "accepted"
    respond_within_s: float = 10.0
    delivery_header: str = ""
    active_max: int = 0
    queued_max: int = 10_000


class ScheduleConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="schedule", tag_field="type"):
    """Executions are started at times: those of a `cron` expression in a `timezone`, `every_s` seconds, or `once`, at these.

    `jitter_s` delays each start by up to as much, always the same for one tick. Of ticks that were missed, the last `catch_up` are started late. After
    `break_after` failures in a row (0: never), the schedule pauses itself. With ``overlap: queue``, up to `queued_max` executions wait. With the `target`
    ``orchestrator``, a tick hands `prompt` to the handler of the application and starts no workflow.
    """

    cron: str = ""
    timezone: str = "UTC"
    every_s: float | None = None
    once: tuple[datetime, ...] = ()
    jitter_s: float = 0.0
    starts_at_s: float | None = None
    ends_at_s: float | None = None
    catch_up: int = 0
    overlap: Overlap = "allow"
    queued_max: int = 10
    break_after: int = 0
    target: Literal["workflow", "orchestrator"] = "workflow"
    prompt: str = ""


class ManualConfig(msgspec.Struct, frozen=True, kw_only=True, tag="manual", tag_field="type"):
    """People and programs start executions by the trigger, with its input."""


class EventConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="event", tag_field="type"):
    """Events start executions: those of executions of the workflow `of` (empty: of all), or events that are posted to the API.

    `on` says which: that an execution has ``completed``, ``failed`` or was ``cancelled``, or ``needs_attention``; a name that its code emits
    under; or the `type` of a CloudEvent.
    `where` are conditions on the event, all of which must hold, each an object as the `when` of a step.
    """

    on: tuple[str, ...]
    of: str = ""
    where: tuple[dict[str, Any], ...] = ()


TriggerConfig = WebhookConfig | ScheduleConfig | ManualConfig | EventConfig


LATEST_S = 253_000_000_000.0
"""About the last time that a calendar has."""

SYSTEM = "perdure"
"""The name under which Perdure itself pauses a trigger."""


class TriggerPause(msgspec.Struct, frozen=True):
    """A pause of a trigger: since when, by whom, and why. A pause that the trigger began itself, after failures in a row, is a `breaker`."""

    at_s: float
    by: str
    reason: str
    breaker: bool = False


class TriggerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trigger. It starts `workflow`: a reference to the catalog or, if it `is_code`, the name of code.

    `mapping` are inputs, each with its JSONPath in the payload, and `input` fixed ones. `owner` says to whom it belongs, and `definition` is the slug of the
    definition that declares it. A schedule has begun, or has gone on after a pause, at `resumed_at_s`.
    """

    id: str
    name: str
    config: TriggerConfig
    workflow: str = ""
    is_code: bool = False
    mapping: dict[str, str] = {}
    input: dict[str, Any] = {}
    enabled: bool = True
    pause: TriggerPause | None = None
    owner: TriggerOwner = ""
    definition: str = ""
    resumed_at_s: float = 0.0
    withdrawn_at_s: float | None = None
    created_at_s: float
    created_by: str
    updated_at_s: float
    updated_by: str

    @property
    def kind(self) -> TriggerKind:
        """What it is."""
        kind: TriggerKind = type(self.config).__struct_config__.tag  # type: ignore[assignment]  # the tags are those of the literal
        return kind

    @property
    def asks(self) -> bool:
        """Whether it hands a prompt to the application, and starts no workflow of its own."""
        return isinstance(self.config, ScheduleConfig) and self.config.target == "orchestrator"

    @property
    def is_active(self) -> bool:
        """Whether it starts executions at present."""
        return self.enabled and self.pause is None and self.withdrawn_at_s is None


class WebhookPath(msgspec.Struct, frozen=True):
    """The trigger that has a path. There is one record for each path, so no two triggers of a tenant have the same one."""

    trigger: str


TRIGGERS = RecordKind("trigger", TriggerRecord)
WEBHOOK_PATHS = RecordKind("webhook path", WebhookPath, audited=False)


def declared_trigger_id(slug: str, name: str) -> str:
    """The id of a trigger that a definition declares under this name: the same in all its versions."""
    return f"{slug}:{name}"


BROKE_AT = "brokeAt"
"""The attribute of a trigger that has paused itself: since when."""


def trigger_attributes(record: TriggerRecord) -> dict[str, AttributeValue | Sequence[AttributeValue]]:
    """The attributes by which a trigger is found. One that is withdrawn is found by its definition alone, so no list has it."""
    found: dict[str, AttributeValue | Sequence[AttributeValue]] = {"definition": record.definition} if record.definition else {}
    if record.withdrawn_at_s is not None:
        return found
    found |= {"listed": True, "kind": record.kind, "enabled": record.enabled, "name": record.name}
    if record.owner:
        found["owner"] = record.owner
    if record.pause is not None and record.pause.breaker:
        found[BROKE_AT] = datetime.fromtimestamp(record.pause.at_s, UTC)
    if record.workflow:
        found["workflow"] = record.workflow.partition("@")[0].partition(":")[0]
    return found


def trigger_change(tenant: str, version: int, record: TriggerRecord) -> RecordChange:
    """The change of a trigger that is at record version `version`."""
    return TRIGGERS.change(tenant, record.id, version, record, trigger_attributes(record))
