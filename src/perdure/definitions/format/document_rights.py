"""What a definition may do beyond computing: the parts of a document that give rights, and which of them another document changes.

The rights are `allow`, `triggers` and `limits`, the steps that read secrets, the steps that run shell commands (``bash``), the hosts that requests go to
(``http``), and the Python functions that are imported by their names (``imports``). The comparison is of documents alone. It does not follow values: a step
that computes the command of an unchanged ``bash`` step gives no right by itself. Where a text could mean a right, it counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from perdure.definitions.format.canonical_form import canonical_json
from perdure.definitions.format.model import VERBS
from perdure.definitions.format.step_tree import nested_lists, placed_steps

Right = Literal["allow", "triggers", "limits", "secrets", "bash", "http", "imports"]
"""A part of a document that gives rights."""

_OF_DOCUMENT: tuple[Right, ...] = ("allow", "triggers", "limits")
"""Fields in which every difference counts: a limit that is removed gives a right, too."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s]*)")
_COMMANDS = frozenset(verb.name for verb in VERBS if verb.right == "commands")
_REQUESTS = frozenset(("http_request", "execute_pipeline", "openapi_action", *(verb.name for verb in VERBS if verb.right == "requests")))
"""The names by which a step or an agent runs commands, and by which a step, a pipeline or an agent makes requests."""

_DESCRIBED = frozenset(verb.name for verb in VERBS if verb.is_described)
"""The names by which a step, an undo or an agent calls operations of APIs, whose documents say where requests go."""

_NAMES_ONLY = frozenset(("id", "name", "description", "ui", "next"))
"""Fields of a step that say nothing of what it does."""


def widened_rights(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Right, ...]:
    """Returns the rights that the canonical document `after` has and `before` had not; of fields of the document, those that differ at all.

    An empty `before` is that of a new definition.
    """
    found = {name for name in _OF_DOCUMENT if canonical_json(before.get(name)) != canonical_json(after.get(name))}
    had = set(_parts(before))
    found |= {right for right, what in _parts(after) if (right, what) not in had}
    return tuple(name for name in get_args(Right) if name in found)


def _parts(document: Mapping[str, Any]) -> Iterator[tuple[Right, str]]:
    """The parts of a document that give rights, each as text."""
    for one in placed_steps(dict(document)):
        own = _own_fields(one.step)
        texts = list(_texts(own))
        if not _COMMANDS.isdisjoint(texts):
            yield "bash", canonical_json(own)
        if any("secrets" in text for text in texts):
            yield "secrets", canonical_json(own)
        yield from (("http", host) for text in texts for host in _URL.findall(text))
        yield from (("imports", text) for text in texts if text.startswith("py:"))
        if not _REQUESTS.isdisjoint(texts):
            yield from (("secrets", f"auth {canonical_json(profile)}") for name in ("auth", "auth_profile") for profile in _values_of(own, name))
            yield from (("http", where) for where in _computed_urls(own))
        if not _DESCRIBED.isdisjoint(texts):  # a document sends requests to any host that it names
            yield from (("http", f"document {canonical_json(place)}") for name in ("openapi", "url", "file") for place in _values_of(own, name))
    for name in ("vars", "input", "output", "on_failure"):
        texts = list(_texts(document.get(name)))
        yield from (("http", host) for text in texts for host in _URL.findall(text))
        yield from (("imports", text) for text in texts if text.startswith("py:"))
        if any("secrets." in text for text in texts):
            yield "secrets", f"{name} {canonical_json(document.get(name))}"


def _own_fields(step: dict[str, Any]) -> dict[str, Any]:
    nested = {field for field, _, _ in nested_lists(step)}
    return {name: value for name, value in step.items() if name not in _NAMES_ONLY and name not in nested}


def _computed_urls(own: Mapping[str, Any]) -> Iterator[str]:
    """The URLs of a step whose host only its execution knows, as they are written."""
    for value in _values_of(own, "url"):
        if not isinstance(value, str) or (match := _URL.match(value)) is None or any(mark in match[1] for mark in "@{$"):
            yield canonical_json(value)
    if not any(True for _ in _values_of(own, "url")):
        yield canonical_json(own)


def _values_of(value: Any, wanted: str) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == wanted:
                yield inner
            yield from _values_of(inner, wanted)
    elif isinstance(value, list):
        for inner in value:
            yield from _values_of(inner, wanted)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
