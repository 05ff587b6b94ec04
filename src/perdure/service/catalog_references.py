"""Finds the version of a definition that a reference names.

A reference is the slug or the id of a definition, alone for its current version, or followed by what selects another::

    invoice                     the current version
    invoice@1.2.0               a version by its number
    invoice@^1, @~1.2, @1.x     the highest version in a range
    invoice@sha256:3f2a91c0d4…  a version by its hash, or by the first 12 digits of it or more
    invoice:production          the version that a tag names
"""

import re
from typing import NamedTuple

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import Ambiguous, BadValue, NotFound
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.graph.version_ranges import best_version, is_in_range, version_order
from perdure.service.catalog_records import DEFINITIONS, RELEASES, VERSIONS, DefinitionRecord, VersionRecord
from perdure.service.record_kinds import KeptValue
from perdure.service.slugs import SLUG, is_id
from perdure.service.version_numbers import is_version
from perdure.stores.protocol import ReadOnlyStore

HASH_DIGITS_MIN = 12
LISTED_MAX = 10
REFERENCE_CHARACTERS_MAX = 300
TAG = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
"""The names that a tag may have."""

_HASH = re.compile(rf"(?:sha256:)?[0-9a-f]{{{HASH_DIGITS_MIN},64}}")
FORMS = "a slug, or a slug with a version (invoice@1.2.0), a range (invoice@^1), a hash (invoice@sha256:…) or a tag (invoice:production)"


class CatalogReference(NamedTuple):
    """The parts of a reference: a slug or id, and at most one of a `wanted` version, range or hash, and a `tag`."""

    name: str
    wanted: str = ""
    tag: str = ""


class ResolvedVersion(msgspec.Struct, frozen=True):
    """The version that a reference names, and its definition. `version` is the number under which it was found."""

    definition: DefinitionRecord
    version: str
    hash: str


class _Release(NamedTuple):
    version: str
    hash: str


def parse_reference(text: str) -> CatalogReference:
    """Parses a reference.

    Raises:
        BadValue: it is none.
    """
    if len(text) > REFERENCE_CHARACTERS_MAX:
        raise BadValue("reference", f"{text[:60]}…", f"at most {REFERENCE_CHARACTERS_MAX} characters: {FORMS}")
    name, at, wanted = text.partition("@")
    tag = ""
    if not at:
        name, colon, tag = text.partition(":")
        if colon and not TAG.fullmatch(tag):
            raise BadValue("reference", text, f"{FORMS}; a tag has 1 to 63 of the characters a-z, 0-9, _, . and -, and begins with a letter")
    if not name or (at and not wanted) or any(one in name for one in "@:/\0"):
        raise BadValue("reference", text, FORMS)
    if wanted.startswith("sha256:"):
        if not _HASH.fullmatch(wanted):
            raise BadValue("reference", text, f"one with a hash of {HASH_DIGITS_MIN} to 64 hexadecimal digits in lower case after sha256:")
    elif at:
        _ = is_in_range(wanted)
    return CatalogReference(name, wanted, tag)


async def find_definition(store: ReadOnlyStore, tenant: str, which: str, deleted: bool = False) -> KeptValue[DefinitionRecord]:
    """The definition of a slug or an id; with `deleted`, also one that was deleted, by its slug.

    Raises:
        NotFound: there is none; the error names a similar one.
    """
    found = await DEFINITIONS.read(store, tenant, which) if SLUG.fullmatch(which) else None
    if found is None and is_id(which):
        found = next(iter(await DEFINITIONS.page(store, tenant, where=attribute_conditions({"id": which}), limit=1)), None)
    if found is None:
        raise NotFound(which, await _unknown_definition(store, tenant, which))
    if found.value.deleted_at_s is not None and not deleted:
        raise NotFound(which, f"the definition {which!r} was deleted. Its versions are kept: create it again from one of them")
    return found


async def _unknown_definition(store: ReadOnlyStore, tenant: str, which: str) -> str:
    known = [one.key for one in await DEFINITIONS.page(store, tenant, where=attribute_conditions({"listed": True}))]
    near = closest_name(which[:REFERENCE_CHARACTERS_MAX], known)
    there = f"Did you mean {near!r}?" if near else f"There are: {_shown(known)}" if known else "The catalog has no definitions: create one"
    return f"there is no definition {which[:REFERENCE_CHARACTERS_MAX]!r}. {there}"


async def resolve_reference(store: ReadOnlyStore, tenant: str, text: str, deleted: bool = False) -> ResolvedVersion:
    """Finds the version that a reference names; with `deleted`, also one of a definition that was deleted.

    Raises:
        BadValue: the text is no reference.
        NotFound: there is no such definition, version or tag; the error lists what there is.
        Ambiguous: several versions have a hash that begins so.
    """
    reference = parse_reference(text)
    record = (await find_definition(store, tenant, reference.name, deleted)).value
    if reference.tag:
        if (tagged := record.version_tags.get(reference.tag)) is None:
            raise NotFound(text, f"{record.slug} has no tag {reference.tag!r}. Its tags are: {_shown(sorted(record.version_tags))}")
        return ResolvedVersion(record, tagged.version, tagged.hash)
    if reference.wanted.startswith("sha256:"):
        version = await find_version(store, tenant, record, reference.wanted)
        return ResolvedVersion(record, record.version if version.hash == record.hash else version.version, version.hash)
    if reference.wanted:
        return await _in_range(store, tenant, record, reference.wanted)
    if not record.hash:
        raise NotFound(text, f"{record.slug} has no version yet, only a draft. Publish the draft first")
    return ResolvedVersion(record, record.version, record.hash)


def is_hash(text: str) -> bool:
    """Whether a text has the form of the hash of a version, or of its beginning; the prefix ``sha256:`` may be left out."""
    return _HASH.fullmatch(text) is not None


async def find_version(store: ReadOnlyStore, tenant: str, record: DefinitionRecord, hash: str) -> VersionRecord:
    """The version of a definition whose hash is, or begins with, `hash`; the prefix ``sha256:`` may be left out.

    Raises:
        NotFound, Ambiguous: none has, or several have.
        BadValue: it is no hash, or too short.
    """
    digits = hash.removeprefix("sha256:")
    if not _HASH.fullmatch(digits):
        raise BadValue("hash", hash, f"a hash of a version: {HASH_DIGITS_MIN} to 64 hexadecimal digits in lower case")
    found = await VERSIONS.page(store, tenant, f"{record.slug}/{digits}", limit=LISTED_MAX)
    if not found:
        raise NotFound(hash, f"{record.slug} has no version with the hash {hash}. {_versions_shown(await _releases(store, tenant, record))}")
    if len(found) > 1:
        raise Ambiguous(hash, [one.value.hash for one in found], len(found) == LISTED_MAX, f"versions of {record.slug}", "Give more digits")
    return found[0].value


async def _in_range(store: ReadOnlyStore, tenant: str, record: DefinitionRecord, wanted: str) -> ResolvedVersion:
    if is_version(wanted):
        exact = await RELEASES.read(store, tenant, f"{record.slug}/{wanted}")
        if exact is not None:
            return ResolvedVersion(record, wanted, exact.value.hash)
    releases = await _releases(store, tenant, record)
    best = best_version(releases, wanted)
    if best is None:
        raise NotFound(f"{record.slug}@{wanted}", f"{record.slug} has no version {wanted}. {_versions_shown(releases)}")
    return ResolvedVersion(record, best.version, best.hash)


async def _releases(store: ReadOnlyStore, tenant: str, record: DefinitionRecord) -> list[_Release]:
    prefix = f"{record.slug}/"
    return [_Release(one.key.removeprefix(prefix), one.value.hash) async for one in RELEASES.all(store, tenant, prefix)]


def _versions_shown(releases: list[_Release]) -> str:
    """The newest versions, in words."""
    newest = sorted((one.version for one in releases), key=version_order, reverse=True)
    return f"There are: {_shown(newest)}"


def _shown(names: list[str]) -> str:
    more = len(names) - LISTED_MAX
    return f"{', '.join(names[:LISTED_MAX]) or 'none'}{f' and {more} more' if more > 0 else ''}"
