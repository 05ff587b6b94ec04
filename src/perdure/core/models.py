"""Models of pydantic, and whatever else writes and reads itself by `model_dump` and `model_validate`. The library itself is not needed."""

from collections.abc import Callable
from functools import lru_cache, partial
from inspect import signature
from typing import Any, get_args

from perdure.core.error_text import said_by


def is_model(kind: Any) -> bool:
    """Whether values of a class read themselves."""
    return hasattr(kind, "model_validate")


def dumped(value: Any) -> Any:
    """What a model is as plain data.

    Raises:
        TypeError: it is none, or something in it would be lost.
    """
    kind: Any = type(value)
    if hasattr(value, "get_secret_value"):
        raise TypeError("a secret is not kept in the log; pass its name, and let the step find it: see docs/guides/secrets.md")
    if not hasattr(value, "model_dump"):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} has no encoding")
    if (secret := secret_field(kind)) is not None:
        raise TypeError(f"its field {secret} is a secret, which is not kept in the log; pass its name, and let the step find it: see docs/guides/secrets.md")
    dump, excluded = _dumping(kind)
    made = dump(value)
    if excluded:
        _refuse_lost(value, made, excluded)
    return made


def validated(kind: Any, raw: Any) -> Any:
    """A model of its plain data, by the names of its fields or by their aliases."""
    return _validating(kind)(raw)


def _refuse_lost(value: Any, made: Any, excluded: tuple[str, ...]) -> None:
    try:
        again = validated(type(value), made)
        lost = [name for name in excluded if getattr(again, name) != getattr(value, name)]
    except Exception as error:  # it needs what it leaves out
        raise TypeError(f"its excluded fields are lost ({', '.join(excluded)}): {said_by(error)}") from error
    if lost:
        raise TypeError(f"its field {lost[0]} is excluded from what it writes, and would be lost; remove exclude=True, or give it its default")


@lru_cache(maxsize=1024)
def _dumping(kind: type) -> tuple[Callable[[Any], Any], tuple[str, ...]]:
    """How values of a class are written, and the fields that it leaves out."""
    fields = getattr(kind, "model_fields", {})
    excluded = tuple(name for name, field in fields.items() if getattr(field, "exclude", None)) if isinstance(fields, dict) else ()
    named = "by_alias" in _parameters(kind.model_dump)  # type: ignore[attr-defined]  # it has been looked for
    return (lambda value: value.model_dump(mode="json", by_alias=False) if named else value.model_dump(mode="json")), excluded


@lru_cache(maxsize=1024)
def _validating(kind: Any) -> Callable[[Any], Any]:
    read: Callable[..., Any] = kind.model_validate
    return partial(read, by_name=True, by_alias=True) if "by_name" in _parameters(read) else read


def _parameters(function: Any) -> frozenset[str]:
    try:
        return frozenset(signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


@lru_cache(maxsize=1024)
def secret_field(kind: Any) -> str | None:
    """The first field of a model, or of one within it, that is a secret."""
    left: list[tuple[str, Any]] = [("", kind)]
    seen = set[int]()
    while left:
        where, hint = left.pop(0)
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        if isinstance(hint, type) and hasattr(hint, "get_secret_value"):
            return where
        fields = getattr(hint, "model_fields", None)
        if isinstance(fields, dict):
            left += [(f"{where}.{name}" if where else name, getattr(field, "annotation", None)) for name, field in fields.items()]
        left += [(where, part) for part in get_args(hint)]
    return None
