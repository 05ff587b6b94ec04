"""Gives the next version of a definition its number.

Numbers only rise, so that a range such as ``^1`` never leads back. A change raises the minor version, as a patch of an execution does, unless the document
declares a version of its own that it did not declare before, or the caller says which part to raise.
"""

import re
from typing import Literal

from perdure.core.errors import BadValue
from perdure.definitions.format.model import DEFAULT_VERSION, VERSION_PATTERN
from perdure.definitions.graph.version_ranges import version_order

VersionPart = Literal["major", "minor", "patch"]
"""The part of a version number to raise."""

VERSION_CHARACTERS_MAX = 100

_EXACT = re.compile(VERSION_PATTERN)
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def is_version(text: str) -> bool:
    """Whether a text is one whole version number, such as ``1.2.0``, and not a range."""
    return _EXACT.fullmatch(text) is not None


def raised(version: str, part: VersionPart) -> str:
    """The version after `version` whose `part` is one higher, and in which what follows that part is 0."""
    found = _NUMBERS.match(version)
    assert found is not None, version
    major, minor, patch = map(int, found.groups())
    match part:
        case "major":
            return f"{major + 1}.0.0"
        case "minor":
            return f"{major}.{minor + 1}.0"
        case "patch":
            return f"{major}.{minor}.{patch + 1}"


def next_version(highest: str, declared: str, declared_before: str, part: VersionPart | None = None) -> str:
    """The number of a new version of a definition whose highest is `highest` (empty: it has none).

    `declared` is the version in the new document and `declared_before` that in the current one; both may be empty. `part` overrides what is declared.

    Raises:
        BadValue: the document newly declares a version that is not above the highest, or a very long one.
    """
    if len(declared) > VERSION_CHARACTERS_MAX:
        raise BadValue("version", f"{declared[:60]}…", f"at most {VERSION_CHARACTERS_MAX} characters; shorten it in the document")
    if not highest:
        return declared or DEFAULT_VERSION
    if part is None and declared and declared != declared_before:
        if not is_above(declared, highest):
            raise BadValue("version", declared, f"above {highest}, the highest so far; raise it, or leave it out of the document")
        return declared
    return raised(highest, part or "minor")


def is_above(version: str, highest: str) -> bool:
    """Whether a version may follow another, because it is above it. Of two pre-releases of one version, either may follow the other."""
    one, other = version_order(version), version_order(highest)
    return one > other or (one == other and not one[3] and version != highest)
