"""Walking: what events and messages are made of, whatever their kinds, to find something in them or to have it be something else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.values import Blob

ARCHIVE = -1
"""Instead of its size: it holds the rows of a log that were replaced, and these refer to further ones."""


def inside(thing: Any) -> Iterator[Any]:
    """A thing and all that it is made of, the outermost first. Named tuples are wholes."""
    yield thing
    if isinstance(thing, msgspec.Struct):
        for name in thing.__struct_fields__:
            yield from inside(getattr(thing, name))
    elif type(thing) in (tuple, list):
        for part in thing:
            yield from inside(part)


def rewritten(thing: Any, change: Callable[[Any], Any]) -> Any:
    """A thing in which all that it is made of, and then itself, has been through `change`; what stays the same is the same object."""
    if isinstance(thing, msgspec.Struct):
        before = {name: getattr(thing, name) for name in thing.__struct_fields__}
        after = {name: rewritten(part, change) for name, part in before.items()}
        different = {name: part for name, part in after.items() if part is not before[name]}
        thing = msgspec.structs.replace(thing, **different) if different else thing
    elif type(thing) is tuple:
        parts = tuple(rewritten(part, change) for part in thing)
        thing = parts if any(part is not other for part, other in zip(parts, thing, strict=True)) else thing
    return change(thing)


def references(*things: Any) -> tuple[tuple[str, ...], ...]:
    """The blobs that things refer to, as `perdure.core.mail.Send` has them."""
    return tuple((name,) for name in blobs_of(things))


def blobs_of(things: Iterable[Any]) -> dict[str, int]:
    """The blobs that things refer to, by hash, with the size that they are said to have, or `ARCHIVE`."""
    found: dict[str, int] = {}
    for thing in things:
        for part in inside(thing):
            match part:
                case Blob(sha256, size_bytes):
                    found[sha256] = size_bytes
                case e.Snapshot(archive=str(sha256)):
                    found.setdefault(sha256, ARCHIVE)
    return found
