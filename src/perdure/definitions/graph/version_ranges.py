"""Versions: which release of a definition is meant by a version, or by a range of them as semantic versioning reads it.

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
    """What has a version."""

    @property
    def version(self) -> str:
        """Three numbers, as semantic versioning has them."""
        ...


HIGHEST = 2**63
V = TypeVar("V", bound=Versioned)


def version_order(version: str) -> tuple[int, int, int, bool]:
    """The order of a version: its three numbers, and that one before a release (``2.0.0-rc1``) comes before that.

    Raises:
        BadValue: it is none.
    """
    found = _EXACT.fullmatch(version.strip())
    if found is None:
        raise BadValue("version", version, "a semantic version, such as 1.2.0")
    major, minor, patch, before = found.groups()
    return int(major), int(minor or 0), int(patch or 0), before is None


def best_version(releases: Sequence[V], wanted: str) -> V | None:
    """The highest release that `wanted` allows (empty: any); None, if there is none. Releases before a version are meant only by their own name.

    Raises:
        BadValue: `wanted` is no version or range.
    """
    exact = [one for one in releases if one.version == wanted]
    if exact:
        return exact[0]
    allows = is_in_range(wanted)
    fitting = [one for one in releases if version_order(one.version)[3] and allows(version_order(one.version)[:3])]
    return max(fitting, key=lambda one: version_order(one.version), default=None)


def is_in_range(wanted: str) -> Callable[[VersionOrder], bool]:
    """Whether a version is within a range.

    Raises:
        BadValue: it is none.
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
    """The first version that differs from `low` in its first `places` numbers."""
    if places == 0:
        return (HIGHEST, 0, 0)
    head = [*low[: places - 1], low[places - 1] + 1]
    return _full_version(*head)


def _full_version(*given: int) -> VersionOrder:
    """The version of which these are the first numbers."""
    major, minor, patch, *_ = *given, 0, 0, 0
    return major, minor, patch
