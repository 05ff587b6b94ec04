"""Values with a meaning, the spellings that a model gives them, and whether one spelling can be derived from another.

Two values are the same thing when their meaning is equal, however they are written: an amount as 1250 cents and as "12.50", a day as ISO text and in words.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
EAST = timezone(timedelta(hours=2))
"""The time zone of the spelling "offset"."""

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_AMOUNT = re.compile(r"[$€]?(\d+)(?:\.(\d{1,2}))?( (?:USD|EUR))?")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_WORDS = re.compile(rf"(\d{{1,2}}) ({'|'.join(MONTHS)}) (\d{{4}})")
_US_WORDS = re.compile(rf"({'|'.join(MONTHS)}) (\d{{1,2}}), (\d{{4}})")


@dataclass(frozen=True)
class Meant:
    """A value that means something: the same `meaning` at two places says that both are the same thing.

    `made` values may be first used in arguments. An `optional` one may as well be a constant: from the calls, this can't be told.
    """

    value: Any
    meaning: str
    made: bool = False
    optional: bool = False

    def written(self, value: Any) -> "Meant":
        """The same thing, written as `value`."""
        return replace(self, value=value)

    def or_constant(self) -> "Meant":
        """The same thing, which the model might have written as a constant as well."""
        return replace(self, optional=True)

    def text(self) -> "Meant":
        """A number as text."""
        return self.written(str(self.value))

    def number(self) -> "Meant":
        """A text of digits as a number."""
        return self.written(int(self.value))

    def dated(self, style: str) -> "Meant":
        """An instant, which is ISO text with a Z, in another spelling."""
        return self.written(spelled_instant(instant_of(self.value), style))

    def amount(self, style: str) -> "Meant":
        """An amount, which is in cents, in another spelling."""
        return self.written(spelled_amount(self.value, style))


@dataclass(frozen=True)
class Text:
    """A text with values in it. The text around them was made up, or is the same in every session if it is a `template`.

    Where it has a `meaning`, the text as a whole is the same thing as other values with that meaning.
    """

    parts: tuple[str | Meant, ...]
    template: bool = False
    meaning: str = ""

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else str(part.value) for part in self.parts)


def prose(*parts: str | Meant) -> Text:
    """A text by the model, with values in it."""
    return Text(parts)


def template(*parts: str | Meant) -> Text:
    """A text whose form is always the same, such as a URL or a path."""
    return Text(parts, template=True)


def instant_of(text: str) -> datetime:
    """The instant that ISO text means."""
    return datetime.fromisoformat(text).astimezone(UTC)


def spelled_instant(instant: datetime, style: str) -> Any:
    """An instant, or its day, as models and tools write it."""
    match style:
        case "iso":
            return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
        case "millis":
            return instant.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        case "offset":
            return instant.astimezone(EAST).isoformat()
        case "epoch":
            return int(instant.timestamp())
        case "epoch_ms":
            return int(instant.timestamp()) * 1000
        case "day":
            return instant.strftime("%Y-%m-%d")
        case "midnight":
            return instant.strftime("%Y-%m-%dT00:00:00Z")
        case "midnight_epoch":
            return int(instant.replace(hour=0, minute=0, second=0).timestamp())
        case "words":
            return f"{instant.day} {MONTHS[instant.month - 1]} {instant.year}"
        case "us_words":
            return f"{MONTHS[instant.month - 1]} {instant.day}, {instant.year}"
        case _:
            raise ValueError(f"{style} is not a spelling of an instant")


def spelled_amount(cents: int, style: str) -> Any:
    """An amount as models and tools write it."""
    match style:
        case "cents":
            return cents
        case "decimal":
            return cents / 100
        case "text":
            return f"{cents // 100}.{cents % 100:02}"
        case "dollars":
            return f"${cents // 100}.{cents % 100:02}"
        case "coded":
            return f"{cents // 100}.{cents % 100:02} USD"
        case _:
            raise ValueError(f"{style} is not a spelling of an amount")


def relation(source: Any, value: Any) -> str | None:
    """How `value` is derived from `source`, both of which mean the same thing; None if it can't be. "extracted" is a mere part of a text."""
    if same(source, value):
        return _kind_of(value)
    if isinstance(source, dict | list | bool | None) or isinstance(value, dict | list | bool | None):
        return None
    if _NUMBER.fullmatch(str(source)) and str(source) == str(value):
        return "number_spelling"
    if _is_later_spelling(source, value):
        return "date_spelling"
    if _cents(source) & _cents(value):
        return "amount_spelling"
    if isinstance(source, str) and isinstance(value, str):
        if source.strip() == value.strip():
            return "trimmed"
        if source.casefold() == value.casefold():
            return "letter_case"
        if value and value.casefold() in source.casefold():
            return "extracted"
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: 1 is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    match one, other:
        case {**left}, {**right}:
            return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        case [*first], [*second]:
            return len(first) == len(second) and all(map(same, first, second))
        case _:
            return bool(one == other)


def _kind_of(value: Any) -> str:
    match value:
        case dict() | list():
            return "structure"
        case bool() | None:
            return "common"
        case int() | float():
            return "number" if abs(value) >= 100 or value != int(value) else "common"
        case str():
            return "common" if value.isalpha() and value.islower() and len(value) <= 8 else "text"
        case _:
            raise TypeError(f"{value!r} is not JSON")


def _when(value: Any) -> tuple[datetime | None, set[date]] | None:
    """The instant of a date with a time, and the days that it may be called by."""
    if isinstance(value, int) and not isinstance(value, bool):
        seconds = value if 10**9 <= value < 2 * 10**9 else value // 1000 if 10**12 <= value < 2 * 10**12 else None
        if seconds is None:
            return None
        instant = datetime.fromtimestamp(seconds, UTC)
        return instant, {instant.date()}
    if not isinstance(value, str):
        return None
    if found := _DAY.fullmatch(value):
        return None, {date.fromisoformat(value)}
    if found := _WORDS.fullmatch(value):
        return None, {date(int(found[3]), MONTHS.index(found[2]) + 1, int(found[1]))}
    if found := _US_WORDS.fullmatch(value):
        return None, {date(int(found[3]), MONTHS.index(found[1]) + 1, int(found[2]))}
    if _DAY.match(value) and "T" in value:
        local = datetime.fromisoformat(value)
        return local.astimezone(UTC), {local.date(), local.astimezone(UTC).date()}
    return None


def _is_later_spelling(source: Any, value: Any) -> bool:
    """Whether a date follows from another one: an instant from the same instant, a day (or its midnight) from an instant or a day."""
    before, after = _when(source), _when(value)
    if before is None or after is None:
        return False
    if after[0] is None or after[0].timestamp() % 86_400 == 0:  # midnight in UTC stands for the day
        return bool(before[1] & after[1])
    return before[0] == after[0]


def _cents(value: Any) -> set[int]:
    """The amounts that a value may mean, in cents."""
    match value:
        case bool():
            return set()
        case int():
            return {value, value * 100}
        case float():
            return {round(value * 100)}
        case str() if found := _AMOUNT.fullmatch(value):
            return {int(found[1]) * 100 + int((found[2] or "0").ljust(2, "0"))}
        case _:
            return set()
