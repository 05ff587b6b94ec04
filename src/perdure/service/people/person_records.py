"""Records of people: when somebody is out of office and who then stands in, where notifications reach them, and which they do not want.

A person needs no record to decide on approvals. The name is the one by which they decide: for somebody who has signed in, the name that their issuer gives.
"""

from typing import Literal, get_args

import msgspec

from perdure.code.declarations import checked_name
from perdure.core import limits
from perdure.core.errors import BadValue
from perdure.service.record_kinds import KeptValue, RecordKind, expect_revision, post_records
from perdure.service.wire_types import Version
from perdure.stores.protocol import ReadOnlyStore, Store
from perdure.stores.records import RecordChange

NotificationKind = Literal["asked", "reminder", "escalated", "failure", "needs_attention", "breaker_open", "proposal_filed", "dead_letter_surge"]
"""What people are notified of: approvals that are asked for, waited for, or escalated; executions that fail or need attention; a trigger that has paused
itself; a proposed change of a definition; and many dead letters within a short time."""

NOTIFICATION_KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)

SUBSTITUTE = "substitute"
"""The attribute by which those are found whom somebody stands in for."""

EMAIL_CHARACTERS_MAX = 320
"""The longest e-mail address."""


class PersonSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person. From `out_from_at_s` until `out_until_at_s` (None: without an end), the `substitute` may decide in their place.

    `email` is their address. Notifications of the kinds `unsubscribed` are not sent to them.
    """

    out_from_at_s: float | None = None
    out_until_at_s: float | None = None
    substitute: str = ""
    email: str = ""
    unsubscribed: tuple[NotificationKind, ...] = ()

    def is_out(self, now_s: float) -> bool:
        """Is true while somebody else stands in."""
        begun = self.out_from_at_s is not None and self.out_from_at_s <= now_s
        return bool(self.substitute) and begun and (self.out_until_at_s is None or now_s < self.out_until_at_s)


PEOPLE = RecordKind("person", PersonSettings)


class PersonDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a person, and whether they are out of office now. `version` is 0 if nothing was saved."""

    name: str
    version: Version
    out_from_at_s: float | None = None
    out_until_at_s: float | None = None
    substitute: str = ""
    email: str = ""
    unsubscribed: tuple[NotificationKind, ...] = ()
    is_out: bool = False


class PersonPage(msgspec.Struct, frozen=True):
    """A page of people, and the name behind which the next one begins (None: this was the last)."""

    items: list[PersonDetails]
    next: str | None = None


NOBODY = PersonSettings()


async def list_people(store: ReadOnlyStore, tenant: str, limit: int, after: str | None = None) -> PersonPage:
    """Lists the people of whom something is known, in order of name, behind `after`.

    Raises:
        BadValue: `after` is not the `next` of a page.
    """
    found, behind = await PEOPLE.page_behind(store, tenant, limit, after)
    now_s = (await store.store_time()).now_s
    return PersonPage([_details(one.key, one, now_s) for one in found], behind)


async def read_person(store: ReadOnlyStore, tenant: str, name: str) -> PersonDetails:
    """Returns what is known of a person."""
    kept = await PEOPLE.read(store, tenant, checked_name(name, "person"))
    return _details(name, kept, (await store.store_time()).now_s)


async def save_person(store: Store, tenant: str, name: str, person: PersonSettings, revision: int | None) -> PersonDetails:
    """Saves what is known of a person, in place of what was.

    Raises:
        BadValue: a time, the substitute, the address or a kind is not valid.
        StaleRecord: the record is not at the revision, or was changed at the same time.
    """
    check_person(checked_name(name, "person"), person)
    kept = await PEOPLE.read(store, tenant, name)
    version = 0 if kept is None else kept.version
    expect_revision(PEOPLE.name, name, revision, version)
    await post_records(store, [_change(tenant, name, version, person)])
    return _details(name, await PEOPLE.read(store, tenant, name), (await store.store_time()).now_s)


async def unsubscribe(store: Store, tenant: str, name: str, kinds: tuple[NotificationKind, ...]) -> None:
    """Adds kinds to those that a person is not notified of. Nothing changes if nothing is known of them."""

    def without(kept: KeptValue[PersonSettings]) -> RecordChange | None:
        unwanted = tuple(dict.fromkeys((*kept.value.unsubscribed, *kinds)))
        if unwanted == kept.value.unsubscribed:
            return None
        return _change(tenant, name, kept.version, msgspec.structs.replace(kept.value, unsubscribed=unwanted))

    _ = await PEOPLE.update(store, tenant, name, without)


def _change(tenant: str, name: str, version: int, person: PersonSettings) -> RecordChange:
    return PEOPLE.change(tenant, name, version, person, {SUBSTITUTE: person.substitute} if person.substitute else {})


def check_person(name: str, person: PersonSettings) -> None:
    """Checks what somebody wants to save.

    Raises:
        BadValue: a time, the substitute, the address or a kind is not valid.
    """
    if person.substitute == name:
        raise BadValue("/substitute", person.substitute, "somebody else")
    if person.substitute.startswith("group:") or len(person.substitute.encode(errors="replace")) > limits.ATTRIBUTE_BYTES_MAX:
        raise BadValue("/substitute", person.substitute[:100], "the name of a person, of at most 1,024 bytes")
    if (person.out_from_at_s is None) != (not person.substitute):
        raise BadValue("/substitute", person.substitute, "given together with the beginning of the absence, or neither of them")
    if person.out_until_at_s is not None and (person.out_from_at_s is None or person.out_until_at_s <= person.out_from_at_s):
        raise BadValue("/outUntilAt", person.out_until_at_s, "later than the beginning of the absence")
    if person.email and not is_email_address(person.email):
        raise BadValue("/email", person.email[:100], "an address such as ada@example.com")
    if unknown := set(person.unsubscribed) - set(NOTIFICATION_KINDS):
        raise BadValue("/unsubscribed", sorted(unknown), f"some of {', '.join(NOTIFICATION_KINDS)}")


def is_email_address(text: str) -> bool:
    """Whether a text can be an e-mail address."""
    return text.count("@") == 1 and text.isprintable() and " " not in text and len(text) <= EMAIL_CHARACTERS_MAX


def _details(name: str, kept: KeptValue[PersonSettings] | None, now_s: float) -> PersonDetails:
    person = NOBODY if kept is None else kept.value
    return PersonDetails(
        name=name,
        version=0 if kept is None else kept.version,
        out_from_at_s=person.out_from_at_s,
        out_until_at_s=person.out_until_at_s,
        substitute=person.substitute,
        email=person.email,
        unsubscribed=person.unsubscribed,
        is_out=person.is_out(now_s),
    )
