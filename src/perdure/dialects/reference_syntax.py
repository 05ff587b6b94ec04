"""Spells references of a definition for any step id and key, and escapes text that would read as a reference.

A step whose id is a name is referred to by it, as ``@get-user.id``; any other, such as ``step[0]``, by its envelope, as ``@steps["step[0]"].output.data.id``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.definitions.expr.cel_names import CEL_LITERALS, CEL_RESERVED

ReferencePath = Sequence[str | int]

CEL_WORDS = CEL_RESERVED | CEL_LITERALS

NAME = r"[^\W\d][\w-]*"

_NAME = re.compile(NAME)
_KEY = re.compile(r"(?!\d+(?![\w-]))\w[\w-]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKS = {
    (is_first, is_before): re.compile((r"\A@|" if is_first else "") + (r"@(?=[@{]|\Z)" if is_before else r"@(?=[@{])"))
    for is_first in (False, True)
    for is_before in (False, True)
}
"""Each @ in text that would mean something, where the text begins a template or not, and stands before a reference or not."""


def reference_text(name: str, path: ReferencePath = ()) -> str:
    """The reference to `path` of a root or a step, without its @."""
    return _spelt(name, path) if _NAME.fullmatch(name) else _spelt("steps", [name, "output", "data", *path])


def whole_reference(name: str, path: ReferencePath = ()) -> str:
    """A reference that is a whole value."""
    return f"@{reference_text(name, path)}"


class EmbeddedReference(NamedTuple):
    """A reference inside text, without its @ and braces."""

    reference: str


def template_text(pieces: Sequence[str | EmbeddedReference]) -> str:
    """Text with references, as a template in which the surrounding text is escaped."""
    made = ""
    for place, piece in enumerate(pieces):
        if isinstance(piece, EmbeddedReference):
            made += f"@{{{piece.reference}}}"
        else:
            is_before = place + 1 < len(pieces) and isinstance(pieces[place + 1], EmbeddedReference)
            made += _MARKS[not made, is_before].sub("@@", piece)
    return made


def reference_in_cel(name: str, path: ReferencePath = ()) -> str:
    """The same in CEL."""
    if _IDENTIFIER.fullmatch(name) and name not in CEL_WORDS:
        return cel_path_text(name, path)
    return cel_path_text("steps", [name, "output", "data", *path])


def escape_template(text: str) -> str:
    """Escapes a text, so that it stands for itself in a template."""
    return template_text([text])


def unescape_template(text: str) -> str:
    """Returns the text that a template without references stands for."""
    return text.replace("@@", "@")


def literal_value(value: Any) -> Any:
    """Escapes all texts in a value, so that they contain no references."""
    match value:
        case str():
            return escape_template(value)
        case list():
            return [literal_value(item) for item in value]
        case dict():
            return {str(key): literal_value(item) for key, item in value.items()}
        case _:
            return value


def plain_value(value: Any) -> Any:
    """Returns the value that templates without references stand for."""
    match value:
        case str():
            return unescape_template(value)
        case list():
            return [plain_value(item) for item in value]
        case dict():
            return {name: plain_value(item) for name, item in value.items()}
        case _:
            return value


def is_reference(value: Any) -> bool:
    """Whether a value is a reference as a whole."""
    return isinstance(value, str) and value.startswith("@") and not value.startswith(("@@", "@{"))


def _spelt(name: str, path: ReferencePath) -> str:
    return name + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" if _KEY.fullmatch(key) else f"[{quoted_text(key)}]" for key in path)


def cel_path_text(name: str, path: ReferencePath) -> str:
    """A name with a path behind it, in CEL."""
    return name + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" if _is_field(key) else f"[{json.dumps(key, ensure_ascii=False)}]" for key in path)


def _is_field(key: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(key)) and key not in CEL_WORDS


def quoted_text(text: str) -> str:
    """Text in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
