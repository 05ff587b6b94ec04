"""Walking: what events and messages are made of, whatever their kinds, to find something in them or to have it be something else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.values import Blob

ARCHIVE_SIZE = -1
"""Instead of its size: it holds the rows of a log that were replaced, and these refer to further ones."""


def parts_of(thing: Any) -> Iterator[Any]:
    """A thing and all that it is made of, the outermost first. Named tuples are wholes."""
    yield thing
    if isinstance(thing, msgspec.Struct):
        for name in thing.__struct_fields__:
            yield from parts_of(getattr(thing, name))
    elif type(thing) in (tuple, list):
        for part in thing:
            yield from parts_of(part)


def rewrite_parts(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A thing in which all that it is made of, and then itself, has been through `change`; what stays the same is the same object."""
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
    """The blobs that things refer to, as `perdure.core.envelopes.OutgoingMessage` has them."""
    return tuple((name,) for name in referenced_blobs(things))


def referenced_blobs(things: Iterable[Any]) -> dict[str, int]:
    """The blobs that things refer to, by hash, with the size that they are said to have, or `ARCHIVE_SIZE`."""
    found: dict[str, int] = {}
    for thing in things:
        for part in parts_of(thing):
            match part:
                case Blob(sha256, size_bytes):
                    found[sha256] = size_bytes
                case e.SnapshotEvent(archive=str(sha256)):
                    found.setdefault(sha256, ARCHIVE_SIZE)
    return found
