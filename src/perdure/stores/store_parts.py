"""The optional parts of a store: abilities beyond `Store`, each a protocol of its own under a name.

A store lists the parts that it has, and a store that wraps another decides for each part whether it hands it on, wraps it as well, or hides it. Nothing
else tells what a store can do: no caller looks at its class or its methods.
"""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PartName(Generic[T]):
    """The name of an optional part. It stands beside the protocol `T` that the part implements."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class StoreParts:
    """The parts that one store has."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: dict[PartName[Any], Any] = {}

    def having(self, name: PartName[T], part: T) -> "StoreParts":
        """Adds a part; returns this object, so that a store can list its parts in one expression."""
        self._parts[name] = part
        return self

    def get(self, name: PartName[T]) -> T | None:
        """Returns the part of this name; None if the store does not have it."""
        part: T | None = self._parts.get(name)
        return part


STORE_KIND: PartName[str] = PartName("kind")
"""The kind of a store, for people to read: ``memory``, ``sqlite``, ``postgres`` or ``redis``. Wrappers hand on that of the store inside."""
