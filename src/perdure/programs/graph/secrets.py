"""Secrets: in a log stands only what stands for one; the value is put in its place when the arguments of a call are read, in the process that performs it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.errors import Fatal
from perdure.core.paths import ROOT, Path
from perdure.expr.template import Template
from perdure.programs.code.codec import Codec
from perdure.programs.code.declare import Step

Find = Callable[[str], str | None]
"""The value of a secret, by its name; None, if there is none."""


class SecretCodec(Codec):
    """The codec of a step that is given secrets at some places of its named arguments, each a JSON pointer."""

    __slots__ = ("_find", "_inner", "_places")

    def __init__(self, inner: Codec, places: Sequence[str], find: Find) -> None:
        self._inner, self._places, self._find = inner, places, find
        self.result = inner.result

    def encode_args(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, path: Path = ROOT) -> bytes:
        """The encoded pair of positional and named arguments."""
        return self._inner.encode_args(args, kwargs, what, path)

    def decode_args(self, raw: bytes, what: str, path: Path = ROOT) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments, each by its hint, with the secrets in their places.

        Raises:
            Fatal: there is no secret of a name.
        """
        args, kwargs = msgspec.msgpack.decode(raw)
        for place in self._places:
            _put(kwargs, [part.replace("~1", "/").replace("~0", "~") for part in place.split("/")[1:]], self._value)
        return self._inner.decode_args(values.encode((args, kwargs), what, path), what, path)

    def _value(self, mark: Any) -> Any:
        match mark:
            case {"@text": list(parts)}:
                return "".join(str(self._value(part)) for part in parts)
            case {"@secret": str(name)}:
                found = self._find(name)
                if found is None:
                    raise Fatal(f"there is no secret {name} where this runs; give it one, and retry the execution")
                return found
        return mark


def _put(holder: Any, place: list[str], value: Callable[[Any], Any]) -> None:
    """Have what stands at a place be its value."""
    for part in place[:-1]:
        holder = holder[int(part) if isinstance(holder, list) else part]
    last: Any = int(place[-1]) if isinstance(holder, list) else place[-1]
    holder[last] = value(holder[last])


def places(template: Template) -> Iterator[str]:
    """Where a template reads secrets."""
    return iter(sorted({read.where for read in template.reads if read.root == "secrets" and read.where}))


def resolving(step: Step[Any, Any, Any], where: Sequence[str], find: Find) -> Step[Any, Any, Any]:
    """A step that is given secrets at these places."""
    found = dataclasses.replace(step)
    found.__dict__["codec"] = SecretCodec(step.codec, where, find)  # where the property would keep it
    return found
