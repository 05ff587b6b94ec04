"""Whether values arrive as they were given: which types can't be decoded at all, and what a value would lose on its way through the log.

What a type may lose is found out once. Most types lose nothing, and cost one look at the value's own type or one decoding.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import lru_cache
from itertools import count
from types import NoneType
from typing import Any, LiteralString, Never, NoReturn, Self, TypeVar, get_args, get_origin

import msgspec

from perdure.core import values
from perdure.core.error_text import said_by, text_of
from perdure.core.errors import LostOnTheWay, UnsupportedType
from perdure.core.models import is_model, secret_field

R = TypeVar("R")

SCALARS = frozenset((str, int, bool, float, bytes, NoneType))
"""Types whose values are what they are: one of exactly the hinted type arrives as it was."""


class Plan:
    """How values of a type are held against what arrives of them: not at all, if it `is_open`; and whether there are classes in it to which one may be cut."""

    __slots__ = ("_hint", "_is_model", "_records", "decode", "is_open")

    def __init__(self, hint: Any) -> None:
        found = list(_classes(msgspec.inspect.type_info(hint)))
        custom = [kind for kind in found if isinstance(kind, msgspec.inspect.CustomType) and kind.cls is not object]
        self._hint = hint
        self._is_model = bool(custom)
        self._records = [kind.cls for kind in found if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DataclassType)]
        self.is_open = all(isinstance(kind, msgspec.inspect.AnyType) or (isinstance(kind, msgspec.inspect.CustomType) and kind.cls is object) for kind in found)
        self.decode = values.decoder(hint)

    def hold(self, value: Any, raw: bytes | msgspec.Raw, where: Callable[[], str]) -> None:
        """Hold an encoded value against its type, as `check` does."""
        if self.is_open:
            return
        try:
            arrived = self.decode(raw)
        except BaseException:
            arrived = values.decode(raw, self._hint, where())
        if self._is_model or any(kind.__subclasses__() for kind in self._records):
            _compare(value, arrived, "", where)


def known(hint: Any) -> Any:
    """The hint as values are decoded by it: what is iterable as a list, what says nothing of its own as Any."""
    origin = get_origin(hint) or hint
    if hint in (Never, NoReturn, Self):
        return Any
    if hint is LiteralString:
        return str
    if origin in (Iterable, Iterator, Generator):
        return list[get_args(hint)[0]] if get_args(hint) else list  # type: ignore[misc]  # a type made of a value
    if origin in (Awaitable, Coroutine):
        return known(get_args(hint)[-1]) if get_args(hint) else Any
    return hint


def refuse_unsupported(function: str, named: Iterable[tuple[str, Any]]) -> None:
    """Refuse a function of which a parameter, or the result, has a type that can't be decoded.

    Raises:
        UnsupportedType: there is one.
    """
    for name, hint in named:
        if hint is not Any and hint not in SCALARS and (why := _cached(_unsupported, hint)):
            raise UnsupportedType(function, name, text_of(lambda hint=hint: str(hint), "its type"), why)  # type: ignore[misc]  # mypy can't infer the default


def check(value: Any, raw: bytes | msgspec.Raw, hint: Any, where: Callable[[], str]) -> None:
    """Refuse an encoded value that would not arrive as it was given.

    Raises:
        Undecodable: it does not fit the hint.
        LostOnTheWay: it would be cut to a class above its own.
    """
    if hint is not Any and (type(value) is not hint or hint not in SCALARS):
        plan: Plan = _cached(_plan, hint)
        plan.hold(value, raw, where)


def _cached(find: Callable[[Any], R], hint: Any) -> R:
    """What `find` finds of a hint, which may be one that has no hash."""
    try:
        return find(hint)
    except TypeError:
        return find.__wrapped__(hint)  # type: ignore[attr-defined,no-any-return]  # functools has it


@lru_cache(maxsize=4096)
def _unsupported(hint: Any) -> str:
    """Why values of a type can't be decoded; nothing, if they can."""
    try:
        found = msgspec.inspect.type_info(hint)
    except Exception as error:  # of a type that is not ours, whatever it is
        return said_by(error)
    for kind in _classes(found):
        if isinstance(kind, msgspec.inspect.CustomType) and kind.cls is not object:
            name = f"{kind.cls.__module__}.{kind.cls.__qualname__}"
            if not is_model(kind.cls):
                return f"{name} has no decoding" + ("; a secret is named and not passed, see docs/guides/secrets.md" if _is_secret(kind.cls) else "")
            if (field := secret_field(kind.cls)) is not None:
                return f"its field {field} is a secret, which would stand in the log; pass the secret's name, see docs/guides/secrets.md"
    return ""


def _is_secret(kind: type) -> bool:
    return hasattr(kind, "get_secret_value")


@lru_cache(maxsize=4096)
def _plan(hint: Any) -> Plan:
    return Plan(hint)


def _classes(found: Any) -> Iterator[Any]:
    """A type and all that it is made of."""
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


def _compare(given: Any, arrived: Any, field: str, where: Callable[[], str]) -> None:
    """Hold what was given against what arrives, as far as that has classes of its own."""
    kind = type(arrived)
    if kind in SCALARS or given is arrived:
        return
    if isinstance(arrived, list | tuple) and isinstance(given, list | tuple):
        for number, one, other in zip(count(), given, arrived, strict=False):
            _compare(one, other, f"{field}[{number}]", where)
    elif isinstance(arrived, dict) and isinstance(given, dict):
        for (key, one), other in zip(given.items(), arrived.values(), strict=False):
            _compare(one, other, f"{field}[{text_of(lambda key=key: repr(key), '...')}]", where)  # type: ignore[misc]  # mypy can't infer the default
    elif isinstance(arrived, set | frozenset) and isinstance(given, set | frozenset):
        for one in given:
            if type(one) not in {type(other) for other in arrived} and any(isinstance(one, type(other)) for other in arrived):
                raise LostOnTheWay(where(), field, f"a {type(one).__name__} arrives as a class above it")
    elif (names := _fields(kind)) is not None:
        if type(given) is kind:
            for name in names:
                _compare(getattr(given, name), getattr(arrived, name), f"{field}.{name}" if field else name, where)
        elif isinstance(given, kind):
            lost = [name for name in _fields(type(given)) or () if name not in names]
            shown = f", without {', '.join(lost)}" if lost else ""
            raise LostOnTheWay(where(), field, f"a {type(given).__name__} arrives as {kind.__name__}{shown}; hint at {type(given).__name__} itself")


def _fields(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of records; None of any other."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if is_dataclass(kind):
        return tuple(one.name for one in dataclass_fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return tuple(one.name for one in attributes)
    return tuple(getattr(kind, "model_fields", ())) if is_model(kind) else None
