"""The version of the database of time zones that this process has: governments change the rules of clocks, and systems are updated with them."""

import zoneinfo
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from perdure.core.attribute_filter import Is

UNNAMED = "0:"
"""The beginning of a version that the database does not name itself, made of a hash. It comes before those that have names."""


@cache
def zone_version() -> str:
    """The version of the zone database, such as ``2026b``: that of the system, if there is one, else that of the package tzdata.

    A process keeps what it has read of the database, so this is constant in it.
    """
    found = next((path for path in map(Path, zoneinfo.TZPATH) if (path / "Europe/London").is_file()), None)
    if found is None:
        if find_spec("tzdata") is None:
            return UNNAMED
        from importlib import import_module

        return str(import_module("tzdata").IANA_VERSION)
    return version_in(found)


def version_in(database: Path) -> str:
    """The version of the zone database in a directory: what it says itself, or else a hash of the rules of all zones."""
    named = database / "+VERSION"
    if named.is_file() and (version := named.read_text().strip()):
        return version
    source = database / "tzdata.zi"
    if source.is_file():
        with source.open() as lines:
            first = lines.readline()
        if first.startswith("# version ") and (version := first.removeprefix("# version ").strip()):
            return version
    digest = sha256()
    for zone in sorted(path for path in database.rglob("*") if path.is_file()):
        content = zone.read_bytes()
        if content.startswith(b"TZif"):
            digest.update(zone.relative_to(database).as_posix().encode() + b"\0" + content)
    return UNNAMED + digest.hexdigest()[:16]


def outdated_by(version: str) -> Is:
    """The condition on versions that a process with this one replaces: those before it. So of two processes, the older database changes nothing back."""
    return Is("!=" if version.startswith(UNNAMED) else "<", version)
