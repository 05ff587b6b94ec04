"""Turns exceptions and names of user code into text that can be stored: valid UTF-8, of bounded length, even if that code misbehaves."""

import re
from collections.abc import Callable

from perdure.core import limits

TextCut = Callable[[str, str], tuple[str, str]]
"""Takes the two sides of a cut through a text and returns them as they may be shown, as `Mask.cut` does."""


SHOWN_CHARACTERS_MAX = 300
"""The longest form of a value in a message; of a longer one, the beginning and the end."""

_WORD = re.compile(r"[a-z][a-z']*(?=[\s,:;.]|$)")


def as_sentence(text: str) -> str:
    """Returns text beginning with a capital, unless it begins with code, such as ``has(x)`` or ``app.start()``."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def valid_utf8(text: str) -> str:
    r"""Returns `text` as valid UTF-8: a lone surrogate becomes ``\udXXX``."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def safe_text(make: Callable[[], object], instead: str) -> str:
    """Returns the text that `make` returns, or `instead` if it raises anything or returns no text."""
    try:
        made = make()
        return str.__str__(made) if isinstance(made, str) else instead
    except BaseException:  # `make` calls code of the user, such as `__str__`, which may raise anything
        return instead


def shown_value(value: object) -> str:
    """Returns a value as Python writes it, for a message: bounded, even if that can't be done."""
    return shorten_text(safe_text(lambda: repr(value), f"a value of type {type(value).__name__}"), SHOWN_CHARACTERS_MAX)


def exception_text(error: BaseException) -> str:
    """Returns the text of an exception, or a placeholder if its `__str__` fails."""
    name = safe_text(lambda: type(error).__qualname__, "exception")
    return safe_text(lambda: str(error), f"(the text of this {name} can't be read: its __str__ failed)")


def exception_summary(error: BaseException) -> str:
    """Returns the class and the text of an exception, bounded, for the message of another error."""
    name = safe_text(lambda: type(error).__qualname__, "an exception")
    return f"{shorten_text(name, limits.ERROR_TYPE_CHARACTERS_MAX)}: {shorten_text(exception_text(error), limits.ERROR_MESSAGE_CHARACTERS_MAX)}"


def shorten_text(text: str, characters_max: int, cut: TextCut | None = None) -> str:
    """Returns `text` as valid UTF-8, shortened to its beginning and its end with the number of characters left out between them."""
    if len(text) <= characters_max:
        return valid_utf8(text)
    head, tail = text[: characters_max * 3 // 4], text[-(characters_max // 4) :]
    left_out = len(text) - len(head) - len(tail)
    if cut is not None:
        head, tail = cut(head, tail)
    return valid_utf8(f"{head} … {left_out:,} characters left out … {tail}")
