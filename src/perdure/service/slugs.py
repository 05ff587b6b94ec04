"""Slugs: the names of definitions in the catalog, which appear in URLs, in references and as the workflow of their executions."""

import re
import unicodedata
from uuid import UUID

from perdure.core.errors import BadName

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,98}[a-z0-9])?")
RESERVED = frozenset(("sync", "sync-all", "manual", "validate"))
"""Slugs that would be taken for a route of the HTTP API."""

RULE = "1 to 100 of the characters a-z, 0-9, _ and -, with a letter or digit at both ends"


def checked_slug(text: str) -> str:
    """Returns a slug that was given by a caller.

    Raises:
        BadName: it has other characters, is reserved, or could be taken for an id.
    """
    if not SLUG.fullmatch(text):
        near = normalized_slug(text)
        raise BadName("slug", text, f"a slug has {RULE}. {f'Use {near!r}' if near and near not in RESERVED else 'Use another one'}")
    if text in RESERVED:
        raise BadName("slug", text, f"it is reserved, as are {', '.join(sorted(RESERVED - {text}))}. Use another one")
    if is_id(text):
        raise BadName("slug", text, "it has the form of an id. Use a word")
    return text


def slug_of_name(name: str) -> str:
    """The slug for the name that a document has: its characters of ASCII in lower case, without accents; others as ``-``.

    Raises:
        BadName: nothing is left of it, or what is left is reserved.
    """
    found = normalized_slug(name)
    if not found:
        raise BadName("slug", name, f"no slug can be made of the name of the document. Give a slug: {RULE}")
    return checked_slug(found)


def normalized_slug(text: str) -> str:
    """The slug that is nearest to a text; empty if it has neither a-z nor 0-9."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:100].strip("-_")


def is_id(text: str) -> bool:
    """Whether a text has the form of the id of a definition, a UUID."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
