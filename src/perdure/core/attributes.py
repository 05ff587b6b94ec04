"""Attributes: the named, typed values by which executions are found, and the sortable form in which stores compare them.

A store knows no types and compares bytes. `sortable_bytes` encodes a value as bytes whose order is that of the values: integers and floats together by
their exact numeric value, text by its code points, times chronologically. The order between values of two types means nothing, so comparisons stay
within one type. `value_of_sortable` decodes the bytes.
"""

import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from perdure.core import limits
from perdure.core.errors import BadName, BadValue, LogDamaged

AttributeValue = str | int | float | bool | datetime
"""The types of an attribute. A datetime has a time zone, and is returned in UTC."""


AttributeValues = Mapping[str, AttributeValue | Sequence[AttributeValue]]
"""Attributes as users pass them, by name: one value, or a list or tuple of several."""

AttributeChangeValues = Mapping[str, AttributeValue | Sequence[AttributeValue] | None]
"""Changes of attributes as users pass them; None or no values removes a name."""

if TYPE_CHECKING:
    ShownAttributes = dict[str, AttributeValue | list[AttributeValue]]
else:
    ShownAttributes = dict[str, Any]  # msgspec decodes no union of text and times, but does decode both
"""Attributes as users read them: a name with several values has a list of them, in order."""


class AttributeTime(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A time, in whole microseconds since 1970."""

    us: int

    def __post_init__(self) -> None:
        if not _FIRST_US <= self.us <= _LAST_US:
            raise ValueError(f"{self.us} microseconds since 1970 is no time of the years 1 to 9999")


Attribute = bool | int | float | str | AttributeTime
"""A value as the log holds it."""

Attributes = tuple[tuple[str, Attribute], ...]
"""All attributes of an execution, in order of name, then of sortable form: a name occurs once for each of its values, none of them twice."""

AttributeChanges = tuple[tuple[str, Attribute | None], ...]
"""Changes of attributes by name: all values of each name, or None, which removes it."""

IndexedAttributes = tuple[tuple[str, bytes], ...]
"""Attributes as stores hold them, in order of name, then of value: each value in its sortable form."""

Value = TypeVar("Value")

ATTRIBUTE_NAME = re.compile(r"[^\W\d][\w.-]{0,63}")
ADDED_PREFIX = "@"
"""Begins the names of attributes that Perdure itself adds in stores. It sorts before every name that users can give."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_FIRST_US, _LAST_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)

TRUTH, NUMBER, TEXT, TIME = b"b", b"n", b"s", b"t"
"""The first byte of the sortable form of each type."""
_SIGN, _ALL = 1 << 63, (1 << 64) - 1

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(AttributeChanges)


# Attributes as users pass and read them.


def checked_attributes(given: AttributeValues) -> Attributes:
    """Returns the attributes with which an execution is started, checked.

    Raises:
        BadName, BadValue: an attribute has a name or a value that is not accepted, or there are more than 32 names or 64 values.
    """
    for name, value in _checked_mapping(given).items():
        if value is None:
            checked_attribute_value(checked_attribute_name(name), value)
    return _within_limits(merge_attributes((), _checked_items(given)))


def checked_attribute_changes(attributes: Attributes, given: AttributeChangeValues) -> AttributeChanges:
    """Returns the changes of these attributes, checked; None or no values removes a name.

    Raises:
        BadName, BadValue: as with `checked_attributes`, for the attributes after the change.
    """
    changes = _checked_items(given)
    _within_limits(merge_attributes(attributes, changes))
    return changes


def check_attributes(attributes: Attributes) -> None:
    """Checks attributes that came from another process in the form of the log.

    Raises:
        BadName, BadValue: they are not as `checked_attributes` returns them.
    """
    for name, value in attributes:
        checked_attribute_name(name)
        if not isinstance(value, AttributeTime):
            checked_attribute_value(name, value)
    if len(set(attributes)) < len(attributes) or merge_attributes((), attributes) != attributes:
        raise BadValue("attributes", "the list", "in order of name, then of value, without repeats")
    _within_limits(attributes)


def _within_limits(attributes: Attributes) -> Attributes:
    if (count := len({name for name, _ in attributes})) > limits.ATTRIBUTES_MAX:
        raise BadValue("how many attributes", count, f"at most {limits.ATTRIBUTES_MAX}; remove some with None")
    if len(attributes) > limits.ATTRIBUTE_VALUES_MAX:
        raise BadValue("how many values of attributes", len(attributes), f"at most {limits.ATTRIBUTE_VALUES_MAX} over all names")
    return attributes


def _checked_items(given: AttributeChangeValues) -> AttributeChanges:
    """Each name with each of its values, in order and without repeats; with None if it has none."""
    found: list[tuple[str, Attribute | None]] = []
    for name, wanted in _checked_mapping(given).items():
        checked_attribute_name(name)
        values = {sortable_bytes(value): value for value in (checked_attribute_value(name, one) for one in attribute_values_of(wanted))}
        found += [(name, values[form]) for form in sorted(values)] or [(name, None)]
    return tuple(found)


def attribute_values_of(given: AttributeValue | Sequence[AttributeValue] | None) -> Sequence[AttributeValue]:
    """The values that a name is given: those of a list or tuple, none for None, else the one value."""
    if given is None:
        return ()
    return given if isinstance(given, list | tuple) else (given,)


def _checked_mapping(given: object) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise BadValue("attributes", given, 'a mapping of names to values, such as {"customer": "c1"}')
    if len(given) > limits.ATTRIBUTES_MAX:
        raise BadValue("how many attributes", len(given), f"at most {limits.ATTRIBUTES_MAX}")
    return given


def checked_attribute_name(name: object) -> str:
    """Returns `name` if it is a valid name of an attribute.

    Raises:
        BadName: it is not.
    """
    if not isinstance(name, str):
        raise BadName("attribute", name, f"it is of type {type(name).__name__}. Pass text")
    if not ATTRIBUTE_NAME.fullmatch(name):
        raise BadName("attribute", name, "it is not a word. Use up to 64 letters, digits, _, . and -, beginning with a letter or _")
    return name


def checked_attribute_value(name: str, value: object) -> Attribute:
    """Returns the value of an attribute as the log holds it.

    Raises:
        BadValue: its type is not one of an attribute, or it is out of bounds.
    """
    what = f"attribute {name}"
    match value:
        case bool():
            return value
        case int():
            if not -_SIGN <= value < _SIGN:
                raise BadValue(what, value, "a whole number of 64 bits; pass larger ones as text")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise BadValue(what, value, "a finite number; leave the attribute out where there is none")
            return float(value) + 0.0  # turns -0.0 into 0.0, so that equal numbers have equal bytes
        case str():
            return _checked_text(what, value)
        case datetime():
            if value.tzinfo is None:
                raise BadValue(what, value, "a time with its zone, such as datetime.now(UTC)")
            return AttributeTime((value - EPOCH) // _US)
    raise BadValue(what, value, f"a str, int, float, bool or datetime, but {type(value).__name__}")


def _checked_text(what: str, value: str) -> str:
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError as error:
        raise BadValue(what, ascii(value), "text that has an encoding in UTF-8") from error
    if size_bytes > limits.ATTRIBUTE_BYTES_MAX:
        raise BadValue(what, f"{value[:40]}...", f"text of at most {limits.ATTRIBUTE_BYTES_MAX:,} bytes in UTF-8: it takes {size_bytes:,}")
    return str.__str__(value)


def attribute_values(attributes: Attributes) -> ShownAttributes:
    """Returns the attributes as users read them."""
    shown = values_by_name((name, EPOCH + value.us * _US if isinstance(value, AttributeTime) else value) for name, value in attributes)
    return {name: values[0] if len(values) == 1 else values for name, values in shown.items()}


def values_by_name(attributes: Iterable[tuple[str, Value]]) -> dict[str, list[Value]]:
    """Returns the values of each name, in their order."""
    found: dict[str, list[Value]] = {}
    for name, value in attributes:
        found.setdefault(name, []).append(value)
    return found


# Attributes in the log.


def encode_attribute_changes(changes: AttributeChanges) -> bytes:
    """Returns a change as bytes for the log."""
    return _encode(changes)


def decode_attribute_changes(raw: object) -> AttributeChanges:
    """Reads a change from the log.

    Raises:
        LogDamaged: the bytes are not a change of attributes.
    """
    try:
        return _decoder.decode(raw)  # type: ignore[arg-type]  # a change is too small for a blob; anything but bytes is refused below
    except (msgspec.MsgspecError, TypeError) as error:
        raise LogDamaged(f"a change of attributes can't be read: {error}") from error


def merge_attributes(attributes: Attributes, changes: AttributeChanges) -> Attributes:
    """Returns the attributes after a change, in order of name, then of value."""
    changed = {name for name, _ in changes}
    kept = [(name, value) for name, value in attributes if name not in changed]
    return tuple(sorted((*kept, *((name, value) for name, value in changes if value is not None)), key=_place))


def _place(attribute: tuple[str, Attribute]) -> tuple[str, bytes]:
    return attribute[0], sortable_bytes(attribute[1])


# Attributes in stores.


def index_attributes(attributes: Attributes) -> IndexedAttributes:
    """Returns the attributes as stores hold them."""
    return tuple((name, sortable_bytes(value)) for name, value in attributes)


def indexed_attribute_values(attributes: IndexedAttributes) -> ShownAttributes:
    """Returns the attributes that a store holds, as users read them: those that they gave."""
    return attribute_values(tuple((name, value_of_sortable(value)) for name, value in split_attributes(attributes)[1]))


def split_attributes(attributes: IndexedAttributes) -> tuple[IndexedAttributes, IndexedAttributes]:
    """Returns the attributes that Perdure has added, and those that users gave."""
    first = 0
    while first < len(attributes) and attributes[first][0].startswith(ADDED_PREFIX):
        first += 1
    return attributes[:first], attributes[first:]


def sortable_bytes(value: Attribute) -> bytes:
    """Returns the sortable form. An int and a float of equal value differ in the last byte only, which keeps the type."""
    match value:
        case bool():
            return TRUTH + bytes((value,))
        case int() | float():
            return sortable_number(value) + (b"i" if isinstance(value, int) else b"f")
        case str():
            return TEXT + value.encode()
        case AttributeTime(us):
            return TIME + (us + _SIGN).to_bytes(8, "big")


def sortable_number(value: float) -> bytes:
    """Returns the numeric value as bytes: the nearest float that is not greater, and the difference to it."""
    below = float(value)
    if below > value:
        below = math.nextafter(below, -math.inf)
    bits = int.from_bytes(struct.pack(">d", below), "big")
    ordered = bits ^ (_ALL if bits & _SIGN else _SIGN)
    above = int(value) - int(below) if isinstance(value, int) else 0
    return NUMBER + ordered.to_bytes(8, "big") + above.to_bytes(2, "big")


def value_of_sortable(form: bytes) -> Attribute:
    """Returns the value of a sortable form.

    Raises:
        LogDamaged: the bytes are not a sortable form.
    """
    kind, body = form[:1], form[1:]
    try:
        match kind, len(body):
            case b"b", 1:
                return body != b"\0"
            case b"s", _:
                return body.decode()
            case b"t", 8:
                return AttributeTime(int.from_bytes(body, "big") - _SIGN)
            case b"n", 11:
                return _number_of_sortable(body)
    except (ValueError, OverflowError) as error:
        raise LogDamaged(f"{form!r} is no value of an attribute: {error}") from error
    raise LogDamaged(f"{form!r} is no value of an attribute")


def _number_of_sortable(body: bytes) -> int | float:
    ordered = int.from_bytes(body[:8], "big")
    (below,) = struct.unpack(">d", struct.pack(">Q", ordered ^ (_SIGN if ordered & _SIGN else _ALL)))
    return int(below) + int.from_bytes(body[8:10], "big") if body[10:] == b"i" else float(below)
