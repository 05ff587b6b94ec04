"""How the arguments and the result of a function become bytes and come back, by its type hints."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpecArgs, ParamSpecKwargs, TypeVar, get_type_hints

import msgspec

from perdure.core import values
from perdure.core.errors import WrongVerb
from perdure.core.paths import ROOT, Path

_NO_NAMED: dict[str, Any] = {}
_shape: msgspec.msgpack.Decoder[tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]] = msgspec.msgpack.Decoder(tuple[list[msgspec.Raw], dict[str, msgspec.Raw]])


class Codec:
    """The type hints of one function, resolved once; its first `skip` parameters are left out."""

    __slots__ = ("_by_count", "_fields", "_is_open", "_named", "_positional", "_rest", "result")

    def __init__(self, fn: Callable[..., Any], skip: int = 0) -> None:
        hints = _hints(fn)
        parameters = _parameters(fn)[skip:]
        hinted = {one.name: _known(hints.get(one.name, Any)) for one in parameters}
        self.result = _known(hints.get("return", Any))
        self._positional = [hinted[one.name] for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._rest = next((hinted[one.name] for one in parameters if one.kind is one.VAR_POSITIONAL), Any)
        self._named = hinted
        self._fields = {one.name: one.default is one.empty for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        self._is_open = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self._by_count: dict[int, Any] = {}

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments by name; of a type that has none, anything."""
        properties, inner = dict[str, Any](), dict[str, Any]()
        for name in self._fields:
            properties[name] = dict(_schema(self._named[name]))
            inner |= properties[name].pop("$defs", {})  # references are from the top
        return {
            "type": "object",
            "properties": properties,
            "required": [name for name in self._fields if self._fields[name]],
            "additionalProperties": self._is_open,
            **({"$defs": inner} if inner else {}),
        }

    def encode_args(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, path: Path = ROOT) -> bytes:
        """The encoded pair of positional and named arguments."""
        return values.encode((args, kwargs), what, path)

    def decode_args(self, raw: bytes, what: str, path: Path = ROOT) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Read what `encode_args` wrote, each argument by its hint."""
        if raw == NO_ARGS:
            return (), _NO_NAMED
        args, kwargs = _shape.decode(raw)
        kinds = self._positional + [self._rest] * (len(args) - len(self._positional))
        positional = [values.decode(one, kind, what, path) for one, kind in zip(args, kinds, strict=False)]
        return positional, {name: values.decode(one, self._named.get(name, Any), what, path) for name, one in kwargs.items()}


def _schema(hint: Any) -> dict[str, Any]:
    if hasattr(hint, "model_json_schema"):
        found: dict[str, Any] = hint.model_json_schema()
        return found
    try:
        return msgspec.json.schema(hint)
    except (TypeError, ValueError):
        return {}


NO_ARGS = values.encode(((), {}), "no arguments")
_codecs: dict[Any, Codec] = {}


def codec_of(fn: Callable[..., Any], skip: int = 0) -> Codec:
    """The codec of a function; functions of the same code and hints, such as a lambda made again and again, share one."""
    code = getattr(fn, "__code__", None)
    if code is None or getattr(fn, "__annotations__", None):
        return Codec(fn, skip)
    codec = _codecs.get(code)
    if codec is None:
        codec = _codecs[code] = Codec(fn, skip)
    return codec


def _hints(fn: Callable[..., Any]) -> Mapping[str, Any]:
    target = fn if inspect.isroutine(fn) or inspect.isclass(fn) else getattr(fn, "func", getattr(fn, "__call__", fn))  # noqa: B004  # the method, not whether there is one
    if not getattr(target, "__annotations__", None):
        return {}
    try:
        return get_type_hints(target)
    except NameError as error:
        name = getattr(fn, "__qualname__", repr(fn))
        raise WrongVerb(f"the type hints of {name}", f"{error}; types used in hints must be reachable from the module, define them at its top level") from error


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return []


def _known(hint: Any) -> Any:
    """The hint, or Any where it names no type of its own."""
    return Any if isinstance(hint, (TypeVar, ParamSpecArgs, ParamSpecKwargs)) or hint in (inspect.Parameter.empty, object) else hint
