"""Shortens values that are shown to people beside others, so that an answer stays small."""

from typing import Any

from perdure.core.error_text import shorten_text

SHOWN_CHARACTERS_MAX = 2_000
"""How much of a value is shown."""


def shown_value(value: Any) -> Any:
    """Returns a value; a long one as shortened text."""
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= SHOWN_CHARACTERS_MAX else shorten_text(text, SHOWN_CHARACTERS_MAX)
