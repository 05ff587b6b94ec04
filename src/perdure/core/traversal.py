"""Visits and rewrites the parts of events and messages of any kind."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.values import Blob

ARCHIVE_SIZE = -1
"""Recorded as the size of an archive blob, whose rows refer to further blobs."""


def parts_of(thing: Any) -> Iterator[Any]:
    """Yields a value and all of its parts, the outermost first. Named tuples count as one part."""
    yield thing
    if isinstance(thing, msgspec.Struct):
        for name in thing.__struct_fields__:
            yield from parts_of(getattr(thing, name))
    elif type(thing) in (tuple, list):
        for part in thing:
            yield from parts_of(part)


def rewrite_parts(thing: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to all parts of a value, the innermost first, and to itself. An unchanged part stays the same object."""
    if isinstance(thing, msgspec.Struct):
        before = {name: getattr(thing, name) for name in thing.__struct_fields__}
        after = {name: rewrite_parts(part, change) for name, part in before.items()}
        different = {name: part for name, part in after.items() if part is not before[name]}
        thing = msgspec.structs.replace(thing, **different) if different else thing
    elif type(thing) is tuple:
        parts = tuple(rewrite_parts(part, change) for part in thing)
        thing = parts if any(part is not other for part, other in zip(parts, thing, strict=True)) else thing
    return change(thing)


def blob_references(*things: Any) -> tuple[tuple[str, ...], ...]:
    """Returns the referenced blobs in the form of `OutgoingMessage.refers`."""
    return tuple((name,) for name in referenced_blobs(things))


def referenced_blobs(things: Iterable[Any]) -> dict[str, int]:
    """Returns the referenced blobs by hash, with their recorded size, or `ARCHIVE_SIZE`."""
    found: dict[str, int] = {}
    for thing in things:
        for part in parts_of(thing):
            match part:
                case Blob(sha256, size_bytes):
                    found[sha256] = size_bytes
                case e.SnapshotEvent(archive=str(sha256)):
                    found.setdefault(sha256, ARCHIVE_SIZE)
    return found
