"""Compares the names of an argument with those of a place in a result: ``user_id`` of any tool is the ``id`` of what ``get_user`` returned.

A name is read as its words, in singular, whatever its case. A field such as ``id`` or ``name`` says little by itself: what it belongs to says more. That is the
mapping that has it (``orders[0].id``: an order), or else the tool (``get_user``: a user).
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from perdure.definitions.expr.references import ValuePath

Agreement = Literal["same", "related", "near", "none", "other"]
"""How names agree: `same` field of the same thing, `related` or `near` names, nothing in common (`none`), or fields of two different things (`other`)."""


class PlaceNames(NamedTuple):
    """The words of a field, and of what it may belong to."""

    field: frozenset[str]
    owners: frozenset[str]


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_SPELLINGS = {
    **dict.fromkeys(("identifier", "uuid", "guid", "pk", "oid"), "id"),
    **dict.fromkeys(("num", "no", "nr"), "number"),
    **dict.fromkeys(("mail", "emailaddress"), "email"),
    **dict.fromkeys(("uri", "href", "link"), "url"),
    **dict.fromkeys(("repo",), "repository"),
    **dict.fromkeys(("org",), "organization"),
    **dict.fromkeys(("qty",), "quantity"),
    **dict.fromkeys(("addr",), "address"),
    **dict.fromkeys(("desc",), "description"),
    **dict.fromkeys(("msg",), "message"),
    **dict.fromkeys(("acct",), "account"),
    **dict.fromkeys(("cust",), "customer"),
    **dict.fromkeys(("tel", "mobile"), "phone"),
    **dict.fromkeys(("dir", "folder"), "directory"),
    **dict.fromkeys(("filename",), "file"),
}
_VERBS = frozenset(
    """
    get list create update delete find search fetch send add set post put patch remove read write make open close query lookup load save store insert
    upsert assign move copy cancel start stop run execute call check validate describe show retrieve issue register book schedule publish upload
    download notify apply by for from to of in on at with the a an all new and or api v
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
_WRAPPERS = frozenset(
    """
    data item result record row list value entry content response payload output body node edge hit object param parameter input argument field filter
    where option property attribute query request detail info
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
GENERIC = frozenset(
    """
    id name key value type status state code number title text url date time count total label slug path description index size kind ref email amount
    price at on token version body content message phone address first last hash sha created updated start end
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
"""Fields that things of many sorts have."""

ENUMERATED = frozenset(
    """
    status state type kind role priority level category currency language locale lang country unit format mode sort order severity visibility plan
    color timezone method scope channel environment env region tier stage
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
"""Fields whose values are few."""

CONTROLS = frozenset(
    """
    page limit offset size count per max min top skip take retry timeout depth width height quality threshold batch step interval ttl days hours
    minutes day hour minute
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
"""Arguments by which a caller controls a tool."""

ROLES = frozenset(
    """
    owner author assignee creator parent sender recipient receiver manager reviewer approver reporter requester target source member participant
    contact lead previous next original related child root from to by user actor account
    """.split()  # noqa: SIM905  # a paragraph reads better than a hundred lines
)
"""Fields that name what a thing is for another one: the id of an owner is that of a user."""

_SYNONYMS = (
    frozenset(("to", "recipient", "email", "address", "cc", "bcc", "from", "sender", "attendee", "invitee")),
    frozenset(("text", "body", "message", "content", "summary", "description", "note", "comment")),
    frozenset(("name", "title", "subject", "label", "heading")),
    frozenset(("amount", "total", "price", "cost", "sum", "subtotal", "balance", "charge", "value")),
    frozenset(("path", "file", "directory", "key")),
    frozenset(("id", "key", "code", "number", "slug", "reference", "ref")),
    frozenset(("phone", "number")),
    frozenset(("login", "username", "user", "assignee", "reviewer", "handle", "author", "owner", "member")),
    frozenset(("birth", "birthday")),
    frozenset(("environment", "env", "stage")),
    frozenset(("location", "city", "place", "address", "site", "venue")),
    frozenset(("adult", "traveler", "passenger", "guest", "people", "person", "attendee", "seat")),
    frozenset(("day", "date", "start", "window")),
    frozenset(("limit", "max", "count", "size", "top", "number", "total")),
    frozenset(("duration", "minute", "length")),
    frozenset(("origin", "from", "start", "source")),
    frozenset(("destination", "to", "end", "target")),
    frozenset(("due", "deadline", "date", "until", "start", "end", "when", "at", "time", "since", "after", "before", "scheduled", "from")),
    frozenset(("token", "cursor", "next", "page", "after")),
    frozenset(("version", "sha", "revision", "commit", "hash", "tag")),
    frozenset(("branch", "ref")),
    frozenset(("person", "user", "customer", "client", "account", "contact", "member", "employee")),
)


@lru_cache(maxsize=4096)
def name_words(name: str) -> frozenset[str]:
    """Returns the words of a name, in lower case and singular."""
    return frozenset(_spelt(word.lower()) for word in _WORD.findall(name[:200]))


def _spelt(word: str) -> str:
    if word in _SPELLINGS:
        return _SPELLINGS[word]
    if len(word) > 3 and word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return _SPELLINGS.get(word, word)


@lru_cache(maxsize=1024)
def tool_things(tool: str) -> frozenset[str]:
    """Returns the words of a tool that name what it is about: its own name without verbs, or else that of its server."""
    server, _, own = tool.rpartition(".")
    return (name_words(own) - _VERBS) or (name_words(server) - _VERBS)


def place_names(path: ValuePath, tool: str) -> PlaceNames:
    """Returns the names of a place in the arguments or in the result of a tool; an empty tool is that of the input."""
    return _named(tuple(key for key in path if isinstance(key, str)), tool)


@lru_cache(maxsize=16384)
def _named(keys: tuple[str, ...], tool: str) -> PlaceNames:
    words = [found for key in keys if (found := name_words(key))]
    field = words.pop() if words else frozenset[str]()
    owner = next((found for one in reversed(words) if (found := one - _WRAPPERS)), frozenset[str]())
    if field and not field - _WRAPPERS and owner:
        field, owner = owner, frozenset()
    return PlaceNames(field, owner or tool_things(tool))


@lru_cache(maxsize=65536)
def names_agreement(argument: PlaceNames, place: PlaceNames) -> Agreement:
    """Returns how the names of an argument agree with those of a place in a result."""
    wanted, found = argument.field, place.field
    if not wanted or not found:
        return "near" if wanted & place.owners else "none"
    own_of_wanted, own_of_found = wanted - GENERIC, found - GENERIC
    if wanted == found:
        if own_of_wanted or not argument.owners or not place.owners or argument.owners & place.owners:
            return "same"
        return "near"
    common = wanted & found
    if common and common <= GENERIC:
        return _of_generic(argument, place, own_of_wanted, own_of_found)
    if common:
        return "related"
    if own_of_wanted & place.owners:
        return "same" if found <= frozenset(("id", "name", "key")) and wanted <= place.owners else "related"
    if own_of_found & argument.owners and wanted <= frozenset(("id", "key", "name")):
        return "related"
    return "near" if any(wanted & group and found & group for group in _SYNONYMS) else "none"


def _of_generic(argument: PlaceNames, place: PlaceNames, own_of_wanted: frozenset[str], own_of_found: frozenset[str]) -> Agreement:
    """Returns the agreement of fields that have in common only what many things have, such as ``user_id`` and ``id``."""
    things, of = own_of_wanted or argument.owners, own_of_found or place.owners
    if things & of:
        return "same"
    if not things or not of:
        return "related"
    if own_of_wanted & ROLES or own_of_found & ROLES or any(things & group and of & group for group in _SYNONYMS):
        return "near"
    return "other" if own_of_wanted and "id" in argument.field else "near"


@lru_cache(maxsize=65536)
def may_agree(wanted: frozenset[str], found: frozenset[str]) -> bool:
    """Returns whether a field with these words may be what an argument with those words is, whatever they belong to. A field without a name may."""
    if not found or wanted & found or found <= _OF_WHOLE:
        return True
    return any(wanted & group and found & group for group in _SYNONYMS)


_OF_WHOLE = frozenset(("id", "name", "key", "code", "number", "slug", "email", "value"))
"""Fields by which a whole thing is meant, such as the `id` of a user for the argument `user`."""


_DELETIONS = frozenset(("delete", "remove", "cancel", "archive", "destroy", "purge", "clear", "drop", "close", "revoke", "unassign", "unsubscribe"))


def is_deletion(tool: str) -> bool:
    """Returns whether the name of a tool says that it takes something away."""
    return bool(name_words(tool.rpartition(".")[2]) & _DELETIONS)
