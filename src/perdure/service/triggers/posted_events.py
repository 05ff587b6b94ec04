"""Events that programs post, as CloudEvents 1.0 in their JSON form: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md."""

from hashlib import sha256
from typing import Any

import msgspec

from perdure.core.announcements import check_event_name
from perdure.core.errors import BadValue
from perdure.core.operations import EVENTS_WORKFLOW
from perdure.core.paths import Key
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.event_listeners import AnnouncedEvent, event_message
from perdure.service.triggers.trigger_specs import time_with_zone
from perdure.stores.protocol import Committed, Post

SPEC_VERSION = "1.0"
TEXT_CHARACTERS_MAX = 1_000
EVENT_BYTES_MAX = 256 * 1024


class PostedEvent(msgspec.Struct, frozen=True):
    """The execution that starts what an event triggers, and whether the event was new: one of this source and id may have been posted before."""

    key: Key
    created: bool


def checked_event(event: Any) -> dict[str, Any]:
    """Returns a CloudEvent.

    Raises:
        BadValue: it is none, or is too large.
    """
    if not isinstance(event, dict):
        raise BadValue("/event", event, "an object: a CloudEvent in JSON")
    if event.get("specversion") != SPEC_VERSION:
        raise BadValue("/specversion", event.get("specversion"), f"{SPEC_VERSION!r}, the version of CloudEvents")
    for name in ("id", "source", "type"):
        text = event.get(name)
        if not isinstance(text, str) or not text.strip() or len(text) > TEXT_CHARACTERS_MAX or "\0" in text:
            raise BadValue(f"/{name}", text, f"a text of 1 to {TEXT_CHARACTERS_MAX:,} characters")
    check_event_name(event["type"], "/type")
    if (time := event.get("time")) is not None:
        _ = _time_s(time)
    if "data" in event and "data_base64" in event:
        raise BadValue("/data_base64", "given", "left out where there is data")
    if (size_bytes := len(msgspec.msgpack.encode(event))) > EVENT_BYTES_MAX:
        raise BadValue("/data", f"{size_bytes:,} bytes", f"small: an event has at most {EVENT_BYTES_MAX:,}. Send where the data is to be found")
    return event


def _time_s(text: Any) -> float:
    try:
        return time_with_zone(text)
    except (TypeError, ValueError, OverflowError):
        raise BadValue("/time", text, "a time with its zone, such as 2026-11-28T07:00:00Z") from None


async def post_event(access: StoreAccess, tenant: str, event: Any) -> PostedEvent:
    """Posts an event durably. What it triggers is started once an engine runs; an event of the same source and id has no effect.

    Raises:
        BadValue: it is no CloudEvent, or is too large.
    """
    found = checked_event(event)
    at_s = _time_s(found["time"]) if found.get("time") is not None else (await access.store.store_time()).now_s
    id = sha256(f"{found['source']}\0{found['id']}".encode(errors="surrogatepass")).hexdigest()
    message = event_message(tenant, id, AnnouncedEvent(found["type"], at_s, data=found))
    (answer,) = await access.store.commit([Post(messages=(message,))])
    key = Key(tenant, EVENTS_WORKFLOW, id)
    return PostedEvent(key, isinstance(answer, Committed) and key in answer.created)
