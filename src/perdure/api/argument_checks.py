"""Checks the arguments of an operation by their types, in whichever form they have arrived, before the operation is performed.

JSON, queries and the binary form end in the same Python values, and one rule for each type holds for all of them:

    a key                                   is of the caller's tenant; its workflow and its id are names of 1 to 1,024 bytes
    `tenant`                                is the caller's
    text                                    has an encoding in UTF-8, of up to 64 KiB
    a whole number                          is from 0 to 2^63 - 1; a `priority` has its sign, and 32 bits
    a number that ends in `_s`              is a duration: finite, and up to a thousand years
    a time (`…_at_s`, `time_s`, a date)     is one of the years 1 to 9999
    any other number                        is finite
    an encoded value or input               can be decoded
    attributes, conditions on attributes    are as the checks of their modules make them

What an argument means, the operation itself checks. Names in errors are those of the JSON form.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import isfinite
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from perdure.api.json_forms import camel, is_time
from perdure.code.call_options import checked_priority
from perdure.code.declarations import checked_name
from perdure.code.durations import duration_seconds
from perdure.core import limits, values
from perdure.core.attribute_filter import AttributeAlternatives, check_alternatives
from perdure.core.attributes import Attributes, check_attributes
from perdure.core.error_text import SHOWN_CHARACTERS_MAX, shorten_text
from perdure.core.errors import BadName, BadValue, NotFound, PerdureError
from perdure.core.paths import Key
from perdure.operations.operation_table import Operation

WHOLE_NUMBER_MAX = 2**63 - 1
FIRST_TIME_S, LAST_TIME_S = -62_135_596_800.0, 253_402_300_799.0
"""The beginning of the year 1 and the end of the year 9999."""

Check = Callable[[Any, str, str], None]
"""Checks a value that is at a place, for a tenant. Raises PerdureError, which names the place."""


def check_arguments(operation: Operation, arguments: Mapping[str, Any], tenant: str) -> None:
    """Checks all arguments of an operation.

    Raises:
        BadValue, BadName: one is not valid.
        NotFound: one is of another tenant, of which nothing exists.
    """
    for name, default, check, where in _checks_of(operation):
        value = arguments.get(name, default)
        if value is not None and value is not default:
            check(value, where, tenant)


@cache
def _checks_of(operation: Operation) -> tuple[tuple[str, Any, Check, str], ...]:
    """Returns what is to be checked of the arguments of an operation: their names, defaults, checks and places."""
    checked = [
        (one.name, one.default, _check_of(one.type, one.name, operation.is_workflow_optional), "" if one.name in operation.spread else f"/{camel(one.name)}")
        for one in operation.parameters
        if one.name not in operation.filled_in or one.name == "tenant"
    ]
    return tuple((name, default, check, where) for name, default, check, where in checked if check is not None)


@cache
def _check_of(kind: Any, name: str, is_workflow_optional: bool) -> Check | None:
    """Returns the check of a type; `name` is that of the field. None if every value of the type is accepted."""
    if name == "tenant":
        return _check_tenant
    if kind == Attributes:
        return _placed(check_attributes)
    if kind == AttributeAlternatives:
        return _placed(check_alternatives)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        form = next((note.extra.get("form") for note in parts[1:] if isinstance(note, msgspec.Meta) and note.extra), None)
        return _ENCODED[form] if form in _ENCODED else _check_of(parts[0], name, is_workflow_optional)
    if origin in (Union, types.UnionType):
        return _check_of_union(parts, name, is_workflow_optional)
    if kind is Key:
        return _check_key_of_any_workflow if is_workflow_optional else _check_key
    if kind in _PLAIN:
        return _PLAIN[kind] if kind is not float and kind is not int else _number_check(kind, name)
    if origin in (list, tuple, frozenset, set, Sequence):
        return _check_of_items(parts, name, is_workflow_optional)
    if origin in (dict, Mapping):
        return _check_of_mapping(parts, name, is_workflow_optional)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _check_of_struct(kind, is_workflow_optional)
    return None


# Checks of plain types.


def _check_tenant(value: Any, where: str, tenant: str) -> None:
    if value is not None and value != tenant:
        shown = shorten_text(str(value), SHOWN_CHARACTERS_MAX)
        raise NotFound(value, f"there is nothing of the tenant {shown} here: the key is one of the tenant {tenant}. Name that: tenant=, or --tenant")


def _check_key_of_any_workflow(value: Key, where: str, tenant: str) -> None:
    _check_key(value if value.workflow else value._replace(workflow="any"), where, tenant)


def _check_key(value: Key, where: str, tenant: str) -> None:
    _check_tenant(value.tenant, where, tenant)
    checked_name(value.workflow, "workflow")
    checked_name(value.id, "id")


def _check_text(value: str, where: str, tenant: str) -> None:
    if len(value) * 4 <= limits.BLOB_BYTES_MIN and value.isascii():
        return
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise BadValue(where, value, "text that has an encoding in UTF-8") from None
    if size_bytes > limits.BLOB_BYTES_MIN:
        raise BadValue(where, value, f"text of at most {limits.BLOB_BYTES_MIN:,} bytes in UTF-8: it takes {size_bytes:,}")


def _check_datetime(value: datetime, where: str, tenant: str) -> None:
    if value.tzinfo is None:
        raise BadValue(where, value.isoformat(), "a time with its zone, such as 2026-11-28T07:00:00Z")
    _check_time(value.timestamp(), where, tenant)


def _check_time(value: float, where: str, tenant: str) -> None:
    if not FIRST_TIME_S <= value <= LAST_TIME_S:
        raise BadValue(where, value, "a time of the years 1 to 9999")


def _check_duration(value: float, where: str, tenant: str) -> None:
    duration_seconds(value, where)


def _check_finite(value: float, where: str, tenant: str) -> None:
    if not isfinite(value):
        raise BadValue(where, value, "a finite number")


def _check_whole(value: int, where: str, tenant: str) -> None:
    if not 0 <= value <= WHOLE_NUMBER_MAX:
        raise BadValue(where, value, "a whole number from 0 to 9,223,372,036,854,775,807")


def _check_priority(value: int, where: str, tenant: str) -> None:
    checked_priority(value, where)


def _number_check(kind: type, name: str) -> Check:
    if kind is int:
        return _check_priority if name == "priority" else _check_whole
    return _check_time if is_time(name) else _check_duration if name.endswith("_s") else _check_finite


# Checks of what is encoded.


def _placed(check: Callable[[Any], object]) -> Check:
    """Returns a check whose errors begin with the place."""

    def checked(value: Any, where: str, tenant: str) -> None:
        try:
            check(value)
        except (BadValue, BadName) as error:
            raise BadValue(where, error.what, "valid", f"{where}: {error}") from error

    return checked


def _decodes_to(kind: Any, expected: str) -> Check:
    def check(value: bytes, where: str, tenant: str) -> None:
        try:
            values.decode(value, kind, where)
        except (PerdureError, RecursionError) as error:
            raise BadValue(where, value, expected, f"{where}: it is not {expected}: {error}") from error

    return check


_ENCODED: dict[Any, Check] = {
    "value": _decodes_to(Any, "an encoded value"),
    "input": _decodes_to(tuple[list[Any], dict[str, Any]], "an encoded input, arguments by position and by name"),
}
_PLAIN: dict[Any, Check] = {str: _check_text, datetime: _check_datetime, float: _check_finite, int: _check_whole}


# Checks of composite types.


def _check_of_union(parts: tuple[Any, ...], name: str, is_workflow_optional: bool) -> Check | None:
    checks = [(_runtime_type(part), its) for part in parts if (its := _check_of(part, name, is_workflow_optional)) is not None]
    if not checks:
        return None

    def check(value: Any, where: str, tenant: str) -> None:
        for kind, its in checks:
            if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
                its(value, where, tenant)
                return

    return check


def _runtime_type(kind: Any) -> Any:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    found = get_origin(kind) or kind
    return (float, int) if found is float else found


def _check_of_items(parts: tuple[Any, ...], name: str, is_workflow_optional: bool) -> Check | None:
    checks = [_check_of(part, name, is_workflow_optional) for part in parts if part is not ...]
    if all(check is None for check in checks):
        return None

    def check(value: Any, where: str, tenant: str) -> None:
        for number, one in enumerate(value):
            its = checks[number % len(checks)]
            if its is not None:
                its(one, f"{where}/{number}", tenant)

    return check


def _check_of_mapping(parts: tuple[Any, ...], name: str, is_workflow_optional: bool) -> Check:
    of_key, of_value = (_check_of(part, name, is_workflow_optional) for part in parts)

    def check(value: Any, where: str, tenant: str) -> None:
        for key, one in value.items():
            if of_key is not None:
                of_key(key, where, tenant)
            if of_value is not None:
                of_value(one, f"{where}/{key}", tenant)

    return check


def _check_of_struct(kind: type[msgspec.Struct], is_workflow_optional: bool) -> Check:
    checks: list[tuple[str, str, Any, Check]] = []
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        its = _check_of(hints[field.name], field.name, is_workflow_optional)
        if its is not None:
            checks.append((field.name, "" if field.name == "key" else f"/{camel(field.name)}", field.default, its))

    def check(value: Any, where: str, tenant: str) -> None:
        for name, place, default, its in checks:
            one = getattr(value, name)
            if one is not default and one is not None:
                its(one, where + place, tenant)

    return check
