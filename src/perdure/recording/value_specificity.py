"""Estimates how much a value says by itself, in bits: what would have to be guessed to hit upon it by chance.

An id of a database, an address or a token says much; ``10``, ``true``, ``"active"`` and a date say little, since they occur everywhere.
"""

import re
from functools import lru_cache
from itertools import islice
from typing import Any

BITS_MAX = 40.0
WEAK_BITS = 12.0
"""Values that say less than this are read only where the names of both places agree."""

_ROUND = frozenset(
    (0, 1, 10, 12, 15, 20, 24, 25, 30, 50, 60, 90, 100, 200, 250, 256, 365, 400, 404, 500, 512, 1000, 1024, 2000, 3600, 5000, 8080, 10000, 86400)
)
_DATE = re.compile(r"\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
CHARACTERS_READ, VALUES_READ, DEPTH_READ = 200, 20, 4


def value_bits(value: Any, depth: int = 0) -> float:
    """Returns the bits of a value, at most 40. Of lists and mappings the first values are read, a few levels deep."""
    match value:
        case None | bool():
            return 1.0
        case int() | float():
            return _of_number(value)
        case str():
            return _of_text(value[:CHARACTERS_READ])
        case list() if depth < DEPTH_READ:
            return min(BITS_MAX, sum(value_bits(one, depth + 1) for one in value[:VALUES_READ]) + min(len(value), 8))
        case dict() if depth < DEPTH_READ:
            return min(BITS_MAX, sum(value_bits(one, depth + 1) + 2 for one in islice(value.values(), VALUES_READ)))
    return 2.0


def _of_number(value: float) -> float:
    if abs(value) >= 1e18:
        return BITS_MAX
    if not float(value).is_integer():
        return min(BITS_MAX, 3.3 * sum(character.isdecimal() for character in repr(abs(value)).partition("e")[0].strip("0.")))
    whole = abs(int(value))
    if whole in _ROUND:
        return 2.0
    digits = str(whole)
    if 1900 <= whole <= 2100:
        return 5.0
    said = len(digits.rstrip("0")) if len(digits) > 2 else len(digits)
    return 3.3 * said + 0.5 * (len(digits) - said)


@lru_cache(maxsize=8192)
def _of_text(value: str) -> float:
    text = value.strip()
    if not text:
        return 0.0
    if _DATE.fullmatch(text):
        return 9.0
    if _TIME.fullmatch(text):
        return 14.0 if re.search(r"[T ]00:00(:00)?(\.0+)?(Z|$)", text) else 22.0
    if len(text) <= 20 and text.replace(".", "", 1).replace(",", "").isdecimal():
        plain = text.replace(",", "")
        return _of_number(float(plain) if "." in plain else int(plain))
    digits = sum(map(str.isdecimal, text))
    marks = sum(not character.isalnum() for character in text)
    words = len(text) - digits - marks
    is_mixed = digits > 0 and words > 0
    if words == len(text) and (text.islower() or text.isupper() or text.istitle()):
        return min(BITS_MAX, 6.0 + 0.6 * min(len(text), 12))
    return min(BITS_MAX, 3.3 * digits + (2.8 if is_mixed else 1.6) * words + 1.5 * min(marks, 6))
