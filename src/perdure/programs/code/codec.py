"""How the arguments and the result of a function become bytes and come back, by its type hints."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ParamSpecArgs, ParamSpecKwargs, TypeVar, get_type_hints

import msgspec

from perdure.core import values
from perdure.core.error_text import text_of
from perdure.core.errors import WrongVerb
from perdure.core.paths import ROOT, Path, text
from perdure.programs.code.round_trip import SCALARS, check, known, refuse_unsupported

_NO_NAMED: dict[str, Any] = {}
_shape: msgspec.msgpack.Decoder[tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]] = msgspec.msgpack.Decoder(tuple[list[msgspec.Raw], dict[str, msgspec.Raw]])


class _NeverPlain:
    """The type of no value: what is hinted otherwise is looked at more closely."""


class Codec:
    """The type hints of one function, resolved once; its first `skip` parameters are left out."""

    __slots__ = ("_fields", "_is_open", "_named", "_names", "_plain", "_plain_result", "_positional", "_rest", "_rest_name", "result")

    def __init__(self, fn: Callable[..., Any], skip: int = 0) -> None:
        hints = _hints(fn)
        parameters = _parameters(fn)[skip:]
        hinted = {one.name: _known(hints.get(one.name, Any)) for one in parameters}
        self.result = _known(hints.get("return", Any))
        self._names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._rest_name = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "args")
        self._positional = [hinted[one.name] for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._plain = [None if kind is Any else kind if kind in SCALARS else _NeverPlain for kind in self._positional]
        self._plain_result = self.result if self.result in SCALARS else _NeverPlain
        self._rest = next((hinted[one.name] for one in parameters if one.kind is one.VAR_POSITIONAL), Any)
        self._named = hinted
        self._fields = {one.name: one.default is one.empty for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        self._is_open = any(one.kind is one.VAR_KEYWORD for one in parameters)
        refuse_unsupported(_name(fn), (*hinted.items(), ("return", self.result)))

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
        """The encoded pair of positional and named arguments.

        Raises:
            Unencodable, TooLarge: they can't be kept.
            Undecodable, LostOnTheWay: one would not arrive as it was given.
        """
        raw = values.encode((args, kwargs), what, path)
        for kind, value in zip(self._plain, args, strict=False):
            if kind is not None and type(value) is not kind:
                break
        else:
            if not kwargs and len(args) <= len(self._plain):
                return raw
        self._check(args, kwargs, raw, what, path)
        return raw

    def encode_result(self, result: Any, what: str, path: Path = ROOT) -> bytes:
        """The encoded result.

        Raises:
            Unencodable, TooLarge: it can't be kept.
            Undecodable, LostOnTheWay: it would not arrive as it was returned.
        """
        raw = values.encode(result, what, path)
        if type(result) is not self._plain_result:
            check(result, raw, self.result, lambda: where(what, path))
        return raw

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any], raw: bytes, what: str, path: Path) -> None:
        """Hold each argument against its hint."""
        positional, named = _shape.decode(raw)
        for number, (value, one, kind) in enumerate(zip(args, positional, self._kinds(len(args)), strict=False)):
            if kind is not Any:
                check(value, one, kind, partial(self._where, number, what, path))
        for name, one in named.items():
            check(kwargs[name], one, self._named.get(name, Any), partial(self._where, name, what, path))

    def _where(self, which: int | str, what: str, path: Path) -> str:
        """An argument, by its number or name, in words."""
        name = which if isinstance(which, str) else self._names[which] if which < len(self._names) else self._rest_name
        return where(f"argument {name} of {what.removeprefix('the arguments of ')}", path)

    def _kinds(self, count: int) -> list[Any]:
        return self._positional + [self._rest] * (count - len(self._positional))

    def decode_args(self, raw: bytes, what: str, path: Path = ROOT) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Read what `encode_args` wrote, each argument by its hint."""
        if raw == NO_ARGS:
            return (), _NO_NAMED
        args, kwargs = _shape.decode(raw)
        kinds = self._positional if len(args) <= len(self._positional) else self._kinds(len(args))
        positional = [values.decode(one, kind, what, path) for one, kind in zip(args, kinds, strict=False)]
        if not kwargs:
            return positional, _NO_NAMED
        return positional, {name: values.decode(one, self._named.get(name, Any), what, path) for name, one in kwargs.items()}


def _schema(hint: Any) -> dict[str, Any]:
    if hasattr(hint, "model_json_schema"):
        found: dict[str, Any] = hint.model_json_schema()
        return found
    try:
        return msgspec.json.schema(hint)
    except (TypeError, ValueError):
        return {}


def where(what: str, path: Path) -> str:
    """What a value is, and of which operation, in words."""
    return f"{what} {text(path)}" if path else what


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


def _name(fn: Callable[..., Any]) -> str:
    return text_of(lambda: fn.__qualname__, text_of(lambda: repr(fn), "a function"))


def _hints(fn: Callable[..., Any]) -> Mapping[str, Any]:
    target = fn if inspect.isroutine(fn) or inspect.isclass(fn) else getattr(fn, "func", getattr(fn, "__call__", fn))  # noqa: B004  # the method, not whether there is one
    if not getattr(target, "__annotations__", None):
        return {}
    try:
        return get_type_hints(target)
    except NameError as error:
        instead = f"{error}; types used in hints must be reachable from the module, define them at its top level"
        raise WrongVerb(f"the type hints of {_name(fn)}", instead) from error


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return []


def _known(hint: Any) -> Any:
    """The hint, or Any where it names no type of its own."""
    return Any if isinstance(hint, (TypeVar, ParamSpecArgs, ParamSpecKwargs)) or hint in (inspect.Parameter.empty, object) else known(hint)
