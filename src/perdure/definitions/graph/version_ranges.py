"""Selects the release of a definition by a version, or by a range as in semantic versioning.

A range is ``2``, ``1.2.x``, ``^1.4``, ``~1.4`` or ``>=1.2 <3``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from perdure.core.errors import BadValue

VersionOrder = tuple[int, int, int]
_PART = re.compile(r"(\^|~|>=|<=|>|<|=)?\s*v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+][0-9A-Za-z.+-]+)?")
_EXACT = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?(?:\+.*)?")


class Versioned(Protocol):
    """Anything that has a version."""

    @property
    def version(self) -> str:
        """Three numbers, as in semantic versioning."""
        ...


HIGHEST = 2**63
V = TypeVar("V", bound=Versioned)


def version_order(version: str) -> tuple[int, int, int, bool]:
    """Returns the sort key of a version: its three numbers; a pre-release (``2.0.0-rc1``) comes before its release.

    Raises:
        BadValue: it is not a version.
    """
    found = _EXACT.fullmatch(version.strip())
    if found is None:
        raise BadValue("version", version, "a semantic version, such as 1.2.0")
    major, minor, patch, before = found.groups()
    return int(major), int(minor or 0), int(patch or 0), before is None


def best_version(releases: Sequence[V], wanted: str) -> V | None:
    """Returns the highest release that `wanted` allows (empty: any); None if there is none. A pre-release is selected only by its full name.

    Raises:
        BadValue: `wanted` is neither a version nor a range.
    """
    exact = [one for one in releases if one.version == wanted]
    if exact:
        return exact[0]
    allows = is_in_range(wanted)
    fitting = [one for one in releases if version_order(one.version)[3] and allows(version_order(one.version)[:3])]
    return max(fitting, key=lambda one: version_order(one.version), default=None)


def is_in_range(wanted: str) -> Callable[[VersionOrder], bool]:
    """Returns the test of whether a version is in a range.

    Raises:
        BadValue: it is neither a version nor a range.
    """
    text = wanted.strip()
    parts, position = [], 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None:
            raise BadValue("version", wanted, "a version or a range, such as 1.2.0, ^2, ~1.4, 1.2.x or >=1.2 <3")
        parts.append(_within(*found.groups()))
        position = found.end()
        while position < len(text) and text[position] in " ,":
            position += 1
    return lambda version: all(fits(version) for fits in parts)


def _within(sign: str | None, *digits: str | None) -> Callable[[VersionOrder], bool]:
    given = [int(digit) for digit in digits if digit is not None and digit.isdecimal()]
    low = _full_version(*given)
    match sign:
        case "^":
            fixed = next((place for place, one in enumerate(given) if one), len(given) - 1) + 1
            return lambda version: low <= version < _next_version(low, fixed)
        case "~":
            return lambda version: low <= version < _next_version(low, min(2, len(given)))
        case ">=":
            return lambda version: version >= low
        case ">":
            return lambda version: version >= _next_version(low, len(given)) if given else False
        case "<=":
            return lambda version: version < _next_version(low, len(given))
        case "<":
            return lambda version: version < low
    return lambda version: version[: len(given)] == tuple(given)


def _next_version(low: VersionOrder, places: int) -> VersionOrder:
    """Returns the first version that differs from `low` in its first `places` numbers."""
    if places == 0:
        return (HIGHEST, 0, 0)
    head = [*low[: places - 1], low[places - 1] + 1]
    return _full_version(*head)


def _full_version(*given: int) -> VersionOrder:
    """Returns the version that begins with these numbers."""
    major, minor, patch, *_ = *given, 0, 0, 0
    return major, minor, patch
