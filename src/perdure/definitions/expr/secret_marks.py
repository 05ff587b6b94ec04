"""Marks, which take the place of secrets in every value that is evaluated or stored.

As data, a mark is ``{"@secret": NAME}``, and text that contains secrets is ``{"@text": [...]}``, a list of texts and marks. Only templates make marks: data
that looks like one is data, so `mark_pointers` looks at the class and not at the shape.
"""

from collections.abc import Iterator
from typing import Any

SECRET, TEXT = "@secret", "@text"


class SecretMark(dict[str, Any]):  # a mapping for everything that encodes or compares it; its class says that a template made it
    """Takes the place of a secret, or of text that contains secrets."""

    __slots__ = ()


def secret_mark(name: str) -> SecretMark:
    """Returns the mark of a secret."""
    return SecretMark({SECRET: name})


def text_mark(parts: list[Any]) -> SecretMark:
    """Returns the mark of a text whose `parts` are texts and marks."""
    return SecretMark({TEXT: parts})


def mark_pointers(value: Any, where: str = "") -> Iterator[str]:
    """Yields the locations of the marks in an evaluated template, as JSON pointers, in the order of the value."""
    match value:
        case SecretMark():
            yield where
        case dict():
            for key, item in value.items():
                yield from mark_pointers(item, f"{where}/{escape_pointer_key(str(key))}")
        case list():
            for number, item in enumerate(value):
                yield from mark_pointers(item, f"{where}/{number}")


def escape_pointer_key(key: str) -> str:
    """Escapes a key for a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
