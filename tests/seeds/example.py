"""What an example of a seed is."""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A document, or with `is_fragment` a part of one that names steps which are not there, and what it comes to, in words."""

    name: str
    document: dict[str, Any]
    is_fragment: bool
    stated: str
