"""Claims about requests to start an execution: what no client of this process would build is refused, and what it builds is not."""

from typing import Any

import msgspec
import pytest

from perdure.core import values
from perdure.core.envelopes import StartAdmission
from perdure.core.errors import BadDefinition, BadName, BadValue, ProgrammingError, TooLarge
from perdure.core.paths import Key
from perdure.operations import on_execution_changes
from perdure.service.execution_operations import StartRequest
from perdure.service.start_checks import checked_start
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from tests.service.catalog_documents import document

KEY = Key("default", "w", "i")

REFUSED: list[tuple[str, dict[str, Any], type[ProgrammingError], str]] = [
    ("no workflow", {"key": Key("default", "", "i")}, BadName, "workflow"),
    ("no id", {"key": Key("default", "w", "")}, BadName, "id"),
    ("a long id", {"key": Key("default", "w", "i" * 1025)}, BadName, "id"),
    ("a workflow of two lines", {"key": Key("default", "a\nb", "i")}, BadName, "workflow"),
    ("a long queue", {"queue": "q" * 1025}, BadName, "queue"),
    ("a lane without a queue", {"lane": "l"}, BadValue, "lane"),
    ("a long lane", {"queue": "q", "lane": "l" * 1025}, BadName, "lane"),
    ("a priority without a queue", {"priority": 1}, BadValue, "priority"),
    ("a huge priority", {"queue": "q", "priority": 2**31}, BadValue, "priority"),
    ("a delay into the past", {"delay_s": -1.0}, BadValue, "delay"),
    ("a delay without end", {"delay_s": float("inf")}, BadValue, "delay"),
    ("a delay that is no number", {"delay_s": float("nan")}, BadValue, "delay"),
    ("a deadline before the start", {"deadline_s": -0.5}, BadValue, "deadline"),
    ("a ttl of a million years", {"ttl_s": 3.2e13}, BadValue, "ttl"),
    ("a negative version", {"version": -1}, BadValue, "version"),
    ("strict and singleton", {"strict": True, "singleton": True}, BadValue, "debounce, singleton and strict"),
    ("a seed that is too large", {"seed": 2**62}, BadValue, "seed"),
    ("an admission of no value", {"admission": StartAdmission("user", b"z", 1)}, BadValue, "admission"),
    ("an admission of no name", {"admission": StartAdmission("", b"sada", 1)}, BadName, "attribute"),
    ("an admission of less than none", {"admission": StartAdmission("user", b"sada", -1)}, BadValue, "admission"),
    ("a context that can't be read", {"carried": (("a", b"\xc1"),)}, BadValue, "carried"),
    ("a context that is too large", {"carried": (("a", values.encode("x" * 20_000, "a context")),)}, TooLarge, "carried"),
    ("a definition that is none", {"definition": b'{"steps": 7}'}, BadDefinition, ""),
    ("a definition that is no JSON", {"definition": b"\xff"}, BadDefinition, ""),
    ("a definition in another form", {"definition": document(1)}, BadValue, "definition"),
]


@pytest.mark.parametrize(("options", "kind", "what"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
async def test_a_start_that_is_not_valid_is_refused_and_stores_nothing(options: dict[str, Any], kind: type[ProgrammingError], what: str) -> None:
    store = MemoryStore()
    access = StoreAccess(store)
    with pytest.raises(kind) as refused:
        await on_execution_changes.start(access, StartRequest(**{"key": KEY, **options}))
    await access.aclose()
    assert getattr(refused.value, "what", getattr(refused.value, "where", "")) == what
    assert list(store.things()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"queue": "q", "lane": "l", "priority": -5},
        {"delay_s": 1, "deadline_s": 2, "grace_s": 0.0, "ttl_s": 3},
        {"debounce_s": 0.5},
        {"admission": StartAdmission("user", b"sada", 0)},
        {"carried": (("a", values.encode({"b": 1}, "a context")),)},
        {"version": 3, "seed": 0},
        {"key": Key("default", "w/ü", "a\nb\0c")},
    ],
    ids=lambda one: ", ".join(one),
)
def test_what_a_client_builds_is_accepted_as_it_is(options: dict[str, Any]) -> None:
    wanted = StartRequest(**{"key": KEY, **options})
    assert checked_start(wanted) is wanted


def test_each_field_of_a_request_to_start_is_known_to_its_checks() -> None:
    """A field that is added must be given a check, or be listed here as one of which every value is valid."""
    checked = {"key", "delay_s", "deadline_s", "grace_s", "ttl_s", "debounce_s", "version", "queue", "lane", "priority", "seed", "admission", "carried"}
    by_their_types = {"input", "attributes", "strict", "singleton", "is_new"}
    assert {one.name for one in msgspec.structs.fields(StartRequest)} == checked | by_their_types | {"definition"}
