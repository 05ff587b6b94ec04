"""Encodes and decodes the arguments and the result of a function by its type hints.

Types that can't be decoded, and values that would lose data on their way through the log, are refused. What a type may lose is computed once. Most types
lose nothing, and cost one comparison of the value's type or one decoding.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache, partial
from itertools import count
from types import NoneType
from typing import Any, LiteralString, Never, NoReturn, ParamSpecArgs, ParamSpecKwargs, Self, TypeVar, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec

from perdure.core import values
from perdure.core.error_text import exception_text, safe_text
from perdure.core.errors import LossyValue, UnsupportedType, WrongVerb
from perdure.core.paths import ROOT, Path, path_text
from perdure.core.values import is_model, secret_field_of

R = TypeVar("R")

SCALAR_TYPES = frozenset((str, int, bool, float, bytes, NoneType))
"""Types without loss: a value of exactly the hinted type is decoded unchanged."""


class RoundTripPlan:
    """How values of a type are compared with their decoded form: not at all if the type `is_open`; else also whether a value may be cut to a base class."""

    __slots__ = ("_hint", "_is_model", "_records", "decode", "is_open")

    def __init__(self, hint: Any) -> None:
        found = list(_classes_of_type(msgspec.inspect.type_info(hint)))
        custom = [kind for kind in found if isinstance(kind, msgspec.inspect.CustomType) and kind.cls is not object]
        self._hint = hint
        self._is_model = bool(custom)
        self._records = [kind.cls for kind in found if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DataclassType)]
        self.is_open = all(isinstance(kind, msgspec.inspect.AnyType) or (isinstance(kind, msgspec.inspect.CustomType) and kind.cls is object) for kind in found)
        self.decode = values.value_decoder(hint)

    def hold(self, value: Any, raw: bytes | msgspec.Raw, where: Callable[[], str]) -> None:
        """Compares an encoded value with its type, as `refuse_lossy_value` does."""
        if self.is_open:
            return
        try:
            arrived = self.decode(raw)
        except BaseException:  # a decoder of the user may raise anything; the next line decodes without it or raises the error to show
            arrived = values.decode(raw, self._hint, where())
        if self._is_model or any(kind.__subclasses__() for kind in self._records):
            _compare_values(value, arrived, "", where)


def decodable_hint(hint: Any) -> Any:
    """Returns the hint by which values are decoded: a list for iterables, Any for a hint without information."""
    origin = get_origin(hint) or hint
    if hint in (Never, NoReturn, Self):
        return Any
    if hint is LiteralString:
        return str
    if origin in (Iterable, Iterator, Generator):
        return list[get_args(hint)[0]] if get_args(hint) else list  # type: ignore[misc]  # the type is computed
    if origin in (Awaitable, Coroutine):
        return decodable_hint(get_args(hint)[-1]) if get_args(hint) else Any
    return hint


def refuse_unsupported(function: str, named: Iterable[tuple[str, Any]]) -> None:
    """Refuses a function if the type of a parameter or of the result can't be decoded.

    Raises:
        UnsupportedType: there is one.
    """
    for name, hint in named:
        if hint is not Any and hint not in SCALAR_TYPES and (why := _cached(_unsupported, hint)):
            raise UnsupportedType(function, name, safe_text(lambda hint=hint: str(hint), "its type"), why)  # type: ignore[misc]  # mypy can't infer the default


def refuse_lossy_value(value: Any, raw: bytes | msgspec.Raw, hint: Any, where: Callable[[], str]) -> None:
    """Refuses an encoded value that would be decoded differently.

    Raises:
        Undecodable: it does not fit the hint.
        LossyValue: it would be cut to a base class.
    """
    if hint is not Any and (type(value) is not hint or hint not in SCALAR_TYPES):
        plan: RoundTripPlan = _cached(_round_trip_plan, hint)
        plan.hold(value, raw, where)


def _cached(find: Callable[[Any], R], hint: Any) -> R:
    """Returns the cached result of `find` for a hint; for one without a hash, computes it."""
    try:
        return find(hint)
    except TypeError:
        return find.__wrapped__(hint)  # type: ignore[attr-defined,no-any-return]  # functools has it


@lru_cache(maxsize=4096)
def _unsupported(hint: Any) -> str:
    """Returns why values of a type can't be decoded; empty if they can."""
    try:
        found = msgspec.inspect.type_info(hint)
    except Exception as error:  # a type of the user may raise anything
        return exception_text(error)
    for kind in _classes_of_type(found):
        if isinstance(kind, msgspec.inspect.CustomType) and kind.cls is not object:
            name = f"{kind.cls.__module__}.{kind.cls.__qualname__}"
            if not is_model(kind.cls):
                return f"{name} has no decoding" + ("; pass the name of the secret, see docs/guides/secrets.md" if _is_secret(kind.cls) else "")
            if (field := secret_field_of(kind.cls)) is not None:
                return f"its field {field} is a secret, which would be stored in the log; pass the name of the secret, see docs/guides/secrets.md"
    return ""


def _is_secret(kind: type) -> bool:
    return hasattr(kind, "get_secret_value")


@lru_cache(maxsize=4096)
def _round_trip_plan(hint: Any) -> RoundTripPlan:
    return RoundTripPlan(hint)


def _classes_of_type(found: Any) -> Iterator[Any]:
    """Yields a type and all types that it contains."""
    left, seen = [found], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, msgspec.inspect.Type):
            yield one
        if isinstance(one, tuple | list):
            left += one
        elif isinstance(one, msgspec.inspect.Type | msgspec.inspect.Field):
            left += [getattr(one, name) for name in one.__struct_fields__ if name not in ("cls", "default", "default_factory")]


def _compare_values(given: Any, arrived: Any, field: str, where: Callable[[], str]) -> None:
    """Compares a value with its decoded form, as far as that has classes of its own."""
    kind = type(arrived)
    if kind in SCALAR_TYPES or given is arrived:
        return
    if isinstance(arrived, list | tuple) and isinstance(given, list | tuple):
        for number, one, other in zip(count(), given, arrived, strict=False):
            _compare_values(one, other, f"{field}[{number}]", where)
    elif isinstance(arrived, dict) and isinstance(given, dict):
        for (key, one), other in zip(given.items(), arrived.values(), strict=False):
            _compare_values(one, other, f"{field}[{safe_text(lambda key=key: repr(key), '...')}]", where)  # type: ignore[misc]  # mypy can't infer the default
    elif isinstance(arrived, set | frozenset) and isinstance(given, set | frozenset):
        for one in given:
            if type(one) not in {type(other) for other in arrived} and any(isinstance(one, type(other)) for other in arrived):
                raise LossyValue(
                    where(), field, f"a {type(one).__name__} would be read back as its base class. Use {type(one).__name__} itself in the type hint"
                )
    elif (names := _record_fields(kind)) is not None:
        if type(given) is kind:
            for name in names:
                _compare_values(getattr(given, name), getattr(arrived, name), f"{field}.{name}" if field else name, where)
        elif isinstance(given, kind):
            lost = [name for name in _record_fields(type(given)) or () if name not in names]
            shown = f", without {', '.join(lost)}" if lost else ""
            raise LossyValue(
                where(), field, f"a {type(given).__name__} would be read back as {kind.__name__}{shown}. Use {type(given).__name__} itself in the type hint"
            )


def _record_fields(kind: type) -> tuple[str, ...] | None:
    """Returns the fields of a dataclass or struct; None for any other class."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if is_dataclass(kind):
        return tuple(one.name for one in dataclass_fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return tuple(one.name for one in attributes)
    return tuple(getattr(kind, "model_fields", ())) if is_model(kind) else None


_NO_NAMED: dict[str, Any] = {}
_arguments_decoder: msgspec.msgpack.Decoder[tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]] = msgspec.msgpack.Decoder(
    tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]
)


class _NothingNamed(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The named arguments, where there are none."""


def _positional_counts(parameters: Sequence[inspect.Parameter]) -> tuple[int, int]:
    """Returns how many arguments a function takes at least and at most if all are passed by position; an empty range if it does not take them so."""
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        return 1, 0
    return sum(one.default is one.empty for one in positional), len(positional)


@lru_cache(maxsize=1024)
def _scalars_decoder(kinds: tuple[Any, ...]) -> Callable[[bytes], tuple[Sequence[Any], _NothingNamed]]:
    """Returns what decodes exactly so many positional arguments of these types, and no named ones, in one call."""
    return msgspec.msgpack.Decoder(tuple[tuple[kinds], _NothingNamed]).decode  # type: ignore[valid-type]  # the kinds are known at run time


class _NeverPlain:
    """The type of no value, used where a value has to be compared in full."""


class FunctionCodec:
    """The codec of one function, from its type hints; its first `skip` parameters are left out."""

    __slots__ = (
        *("_counts", "_fields", "_is_open", "_named", "_names", "_plain", "_plain_result", "_positional", "_rest", "_rest_name", "_scalars", "_signature"),
        "result",
    )

    def __init__(self, fn: Callable[..., Any], skip: int = 0) -> None:
        hints = _hints(fn)
        parameters = _parameters(fn)[skip:]
        hinted = {one.name: _parameter_hint(hints.get(one.name, Any)) for one in parameters}
        self.result = _parameter_hint(hints.get("return", Any))
        self._names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._rest_name = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "args")
        self._positional = [hinted[one.name] for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._plain = [None if kind is Any else kind if kind in SCALAR_TYPES else _NeverPlain for kind in self._positional]
        self._plain_result = self.result if self.result in SCALAR_TYPES else _NeverPlain
        self._scalars = _scalars_decoder(tuple(self._positional)) if all(kind in SCALAR_TYPES for kind in self._positional) else None
        self._rest = next((hinted[one.name] for one in parameters if one.kind is one.VAR_POSITIONAL), Any)
        self._named = hinted
        self._fields = {one.name: one.default is one.empty for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        self._counts = _positional_counts(parameters)
        self._is_open = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self._signature = inspect.Signature(parameters)
        refuse_unsupported(_function_name(fn), (*hinted.items(), ("return", self.result)))

    def expect_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Checks that the function takes these arguments; their types are not looked at.

        Raises:
            TypeError: it does not.
        """
        if kwargs or not self._counts[0] <= len(args) <= self._counts[1]:
            self._signature.bind(*args, **kwargs)

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of the arguments by name; a type without one accepts anything."""
        properties, inner = dict[str, Any](), dict[str, Any]()
        for name in self._fields:
            properties[name] = dict(hint_schema(self._named[name]))
            inner |= properties[name].pop("$defs", {})  # references are relative to the top
        return {
            "type": "object",
            "properties": properties,
            "required": [name for name in self._fields if self._fields[name]],
            "additionalProperties": self._is_open,
            **({"$defs": inner} if inner else {}),
        }

    def encode_args(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, path: Path = ROOT) -> bytes:
        """Encodes the pair of positional and named arguments.

        Raises:
            Unencodable, TooLarge: they can't be encoded.
            Undecodable, LossyValue: one would be decoded differently.
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
        """Encodes the result.

        Raises:
            Unencodable, TooLarge: it can't be encoded.
            Undecodable, LossyValue: it would be decoded differently.
        """
        raw = values.encode(result, what, path)
        if type(result) is not self._plain_result:
            refuse_lossy_value(result, raw, self.result, lambda: value_location(what, path))
        return raw

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any], raw: bytes, what: str, path: Path) -> None:
        """Compares each argument with its hint."""
        positional, named = _arguments_decoder.decode(raw)
        for number, (value, one, kind) in enumerate(zip(args, positional, self._kinds(len(args)), strict=False)):
            if kind is not Any:
                refuse_lossy_value(value, one, kind, partial(self._where, number, what, path))
        for name, one in named.items():
            refuse_lossy_value(kwargs[name], one, self._named.get(name, Any), partial(self._where, name, what, path))

    def _where(self, which: int | str, what: str, path: Path) -> str:
        """Describes an argument by its number or name."""
        name = which if isinstance(which, str) else self._names[which] if which < len(self._names) else self._rest_name
        return value_location(f"argument {name} of {what.removeprefix('the arguments of ')}", path)

    def _kinds(self, count: int) -> list[Any]:
        return self._positional + [self._rest] * (count - len(self._positional))

    def decode_args(self, raw: bytes, what: str, path: Path = ROOT) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Decodes what `encode_args` wrote, each argument by its hint."""
        if raw == NO_ARGUMENTS_ENCODED:
            return (), _NO_NAMED
        if self._scalars is not None:
            try:
                return self._scalars(raw)[0], _NO_NAMED
            except msgspec.ValidationError:
                pass  # named arguments, defaults or a wrong type: decoded one by one below, which also says what is wrong
        args, kwargs = _arguments_decoder.decode(raw)
        kinds = self._positional if len(args) <= len(self._positional) else self._kinds(len(args))
        positional = [values.decode(one, kind, what, path) for one, kind in zip(args, kinds, strict=False)]
        if not kwargs:
            return positional, _NO_NAMED
        return positional, {name: values.decode(one, self._named.get(name, Any), what, path) for name, one in kwargs.items()}


def hint_schema(hint: Any) -> dict[str, Any]:
    """Returns the JSON Schema of a type; an empty one, which anything fits, if it has none."""
    if hasattr(hint, "model_json_schema"):
        found: dict[str, Any] = hint.model_json_schema()
        return found
    try:
        return msgspec.json.schema(hint)
    except (TypeError, ValueError):
        return {}


def value_location(what: str, path: Path) -> str:
    """Describes a value and the operation that it belongs to."""
    return f"{what} {path_text(path)}" if path else what


NO_ARGUMENTS_ENCODED = values.encode(((), {}), "no arguments")
_codecs: MutableMapping[Any, dict[int, FunctionCodec]] = WeakKeyDictionary()


def codec_of_function(fn: Callable[..., Any], skip: int = 0) -> FunctionCodec:
    """Returns the codec of a function, which is made once. Functions without hints that have the same code, such as a lambda that is created repeatedly,
    share one.

    Raises:
        UnsupportedType: a type hint is not supported.
    """
    code = None if getattr(fn, "__annotations__", None) else getattr(fn, "__code__", None)
    try:
        made = _codecs.setdefault(fn if code is None else code, {})
    except TypeError:  # a callable object that can't be a key
        return FunctionCodec(fn, skip)
    if skip not in made:
        made[skip] = FunctionCodec(fn, skip)
    return made[skip]


def _function_name(fn: Callable[..., Any]) -> str:
    return safe_text(lambda: fn.__qualname__, safe_text(lambda: repr(fn), "a function"))


def _hints(fn: Callable[..., Any]) -> Mapping[str, Any]:
    target = fn if inspect.isroutine(fn) or inspect.isclass(fn) else getattr(fn, "func", getattr(fn, "__call__", fn))  # noqa: B004  # the method itself
    if not getattr(target, "__annotations__", None):
        return {}
    try:
        return get_type_hints(target)
    except NameError as error:
        instead = f"{error}. Define the types that hints use at the top level of the module"
        raise WrongVerb(f"the type hints of {_function_name(fn)} can't be resolved", instead) from error


def _parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return []


def _parameter_hint(hint: Any) -> Any:
    """Returns the hint, or Any for a hint without a type."""
    return Any if isinstance(hint, (TypeVar, ParamSpecArgs, ParamSpecKwargs)) or hint in (inspect.Parameter.empty, object) else decodable_hint(hint)
