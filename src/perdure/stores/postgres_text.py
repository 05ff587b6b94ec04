"""Names in Postgres: they may hold NUL, which its text can't, so they are escaped there. Arrays of names have to be escaped by hand."""

import re


def escaped(text: str) -> str:
    """A name as Postgres keeps it."""
    return text.replace("\\", "\\\\").replace("\0", "\\0")


def unescaped(text: str) -> str:
    """The name that Postgres keeps so."""
    return re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else "\\", text)
