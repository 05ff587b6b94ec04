"""Marks: what stands for a secret wherever expressions are evaluated and whatever they come to is kept.

As data, a mark is ``{"@secret": NAME}``, and text with secrets in it ``{"@text": [...]}``, of text and such marks. Only what a template has made is one:
data that looks like a mark is data, so `places` goes by who made it.
"""

from collections.abc import Iterator
from typing import Any

SECRET, TEXT = "@secret", "@text"


class Mark(dict[str, Any]):  # a mapping to whatever encodes or compares it; its class says who made it
    """Stands for a secret, or for text with secrets in it."""

    __slots__ = ()


def secret(name: str) -> Mark:
    """What stands for the secret of a name."""
    return Mark({SECRET: name})


def text(parts: list[Any]) -> Mark:
    """What stands for text whose `parts` are text and marks of secrets."""
    return Mark({TEXT: parts})


def places(value: Any, where: str = "") -> Iterator[str]:
    """Where marks stand in what templates have come to, as JSON pointers, in the order of the value."""
    match value:
        case Mark():
            yield where
        case dict():
            for key, item in value.items():
                yield from places(item, f"{where}/{escaped(str(key))}")
        case list():
            for number, item in enumerate(value):
                yield from places(item, f"{where}/{number}")


def escaped(key: str) -> str:
    """A key as a JSON pointer has it."""
    return key.replace("~", "~0").replace("/", "~1")
